"""Plain numbers as inline SVG that takes its colours from the page's style sheet."""

from m3dphormer.report.charts.confusion import confusion_chart
from m3dphormer.report.charts.gates import gate_chart
from m3dphormer.report.charts.lines import Line, Mark, line_chart
from m3dphormer.report.charts.seeds import seed_chart

__all__ = ["Line", "Mark", "confusion_chart", "gate_chart", "line_chart", "seed_chart"]
