// Whether this process was forked: the threads of OpenMP do not survive that.
#pragma once
bool m3d_forked();
