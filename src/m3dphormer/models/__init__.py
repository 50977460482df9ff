"""Networks: one file a family, a registry, settings checked in one place."""

from m3dphormer.models import (
    cobformer,
    exphormer,
    fagcn,
    gcn_moe,
    gnn,
    gprgnn,
    m3dphormer,
    mlp,
    mowst,
    nagphormer,
    polynormer,
    sgformer,
    tuned_gnn,
)
from m3dphormer.models.base import Attention, Model, ModelConfig, Phase
from m3dphormer.models.check import check_model
from m3dphormer.models.registry import create_model, list_models, model_type, register_model

__all__ = [
    "Attention",
    "Model",
    "ModelConfig",
    "Phase",
    "check_model",
    "cobformer",
    "create_model",
    "exphormer",
    "fagcn",
    "gcn_moe",
    "gnn",
    "gprgnn",
    "list_models",
    "m3dphormer",
    "mlp",
    "model_type",
    "mowst",
    "nagphormer",
    "polynormer",
    "register_model",
    "sgformer",
    "tuned_gnn",
]
