"""From plain numbers to the page: charts, words, template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from m3dphormer.masks.picture import COLOURS
from m3dphormer.report.charts import (
    Line,
    Mark,
    confusion_chart,
    gate_chart,
    line_chart,
    seed_chart,
)
from m3dphormer.report.gather import Report
from m3dphormer.training.loop import PARTS, Epoch

METRIC_WORDS = {"accuracy": "accuracy", "roc_auc": "ROC-AUC", "f1": "macro F1"}
PART_WORDS = {"train": "training", "val": "validation", "test": "test"}
NOTHING = "–"


@dataclass(frozen=True)
class LayerCharts:
    """Gates of one layer, drawn."""

    by_degree: Markup
    by_homophily: Markup


def render(report: Report) -> str:
    """The whole page."""
    environment = Environment(
        loader=PackageLoader("m3dphormer", "report/template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(percent=percent, duration=duration, size=size, decimal=decimal)
    return environment.get_template("report.html.j2").render(
        report=report,
        metric=METRIC_WORDS[report.metric],
        meaning=meaning(report),
        parts=[PART_WORDS[part] for part in PARTS],
        seeds=None
        if report.interval is None
        else seed_chart(report.scores, report.mean, report.interval),
        loss=loss_chart(report.histories, report.best),
        curves=score_chart(report.histories, report.best, METRIC_WORDS[report.metric]),
        confusion=None
        if report.confusion is None
        else confusion_chart(report.confusion, report.labels),
        gates=gate_charts(report),
        mask_colours=list(COLOURS.values()),
    )


def meaning(report: Report) -> str:
    """The score in one plain sentence, beside what guessing would get."""
    mean, guessed = f"{report.mean:.1f}", report.guess
    if report.metric == "roc_auc":
        return (
            f"Of two nodes of different classes, the right one is ranked higher in {mean} of 100 "
            "cases; a coin would get 50."
        )
    if report.metric == "f1":
        said = f"Averaged over the classes, F1 on the test nodes is {mean} of 100"
    else:
        said = f"Of 100 nodes it has not seen the label of, it labels {mean} right"
    if guessed is None:
        return f"{said}."
    return f"{said}; always answering the most frequent class would get {guessed:.1f}."


def loss_chart(histories: Sequence[Sequence[Epoch]], best: Sequence[Epoch]) -> Markup:
    """Training loss of every seed, with the epoch that was kept."""
    lines = [
        Line([(e.epoch, e.loss) for e in history], 0, f"seed {i}: ends at {history[-1].loss:.4f}")
        for i, history in enumerate(histories)
    ]
    marks = [
        Mark(e.epoch, e.loss, 0, f"seed {i}: epoch {e.epoch} kept, loss {e.loss:.4f}")
        for i, e in enumerate(best)
    ]
    return line_chart("Training loss by epoch, a line for each seed", lines, marks, "epoch")


def score_chart(histories: Sequence[Sequence[Epoch]], best: Sequence[Epoch], name: str) -> Markup:
    """Training, validation and test score of every seed, with the epoch that was kept."""
    lines, marks = [], []
    for colour, part in enumerate(PARTS):
        for i, (history, kept) in enumerate(zip(histories, best, strict=True)):
            score = 100 * getattr(kept, part)
            points = [(e.epoch, 100 * getattr(e, part)) for e in history]
            said = f"seed {i}, {PART_WORDS[part]}: {score:.2f} at epoch {kept.epoch}"
            lines.append(Line(points, colour, said))
            if part == "val":
                marks.append(Mark(kept.epoch, score, colour, f"{said}, which was kept"))
    words = f"Training, validation and test {name} by epoch, a line for each seed"
    return line_chart(words, lines, marks, "epoch")


def gate_charts(report: Report) -> list[LayerCharts]:
    """One pair of charts a layer."""
    names = report.gate_names
    return [
        LayerCharts(
            gate_chart(f"Gates of layer {i} by degree", layer.by_degree, names, "degree"),
            gate_chart(f"Gates of layer {i} by homophily", layer.by_homophily, names, "same class"),
        )
        for i, layer in enumerate(report.gates, start=1)
    ]


def percent(share: float | None, digits: int = 1) -> str:
    """0.873 as 87.3 %; what would round to zero as less than the last digit."""
    if share is None:
        return NOTHING
    least = 10.0**-digits
    return f"< {least:.{digits}f} %" if 0 < 100 * share < least else f"{100 * share:.{digits}f} %"


def decimal(value: float | None, digits: int = 2) -> str:
    """With so many digits after the point."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def duration(seconds: float) -> str:
    """0.0123 as 12 ms, 75 as 1 min 15 s."""
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def size(count: int | None) -> str:
    """Bytes, in the larger unit."""
    if count is None:
        return NOTHING
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
