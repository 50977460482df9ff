// Whether this process was forked: the threads of OpenMP do not survive that, and waiting for them would hang.
#pragma once
bool m3d_forked();
