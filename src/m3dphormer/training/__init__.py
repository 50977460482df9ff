"""Fit, evaluate, record: one loop for every model, and ``NodeClassifier``."""

from m3dphormer.training.classifier import NodeClassifier
from m3dphormer.training.files import write_table
from m3dphormer.training.forecast import Plan, plan
from m3dphormer.training.predict import predict_run
from m3dphormer.training.run import Summary, train
from m3dphormer.training.settings import parse_settings, read_recipe

__all__ = [
    "NodeClassifier",
    "Plan",
    "Summary",
    "parse_settings",
    "plan",
    "predict_run",
    "read_recipe",
    "train",
    "write_table",
]
