"""Networks: one file a family, a registry, settings checked in one place."""

from m3dphormer.models import gcn_moe, m3dphormer, mowst
from m3dphormer.models.base import Attention, Model, ModelConfig, Phase
from m3dphormer.models.check import check_model
from m3dphormer.models.registry import create_model, list_models, model_type, register_model

__all__ = [
    "Attention",
    "Model",
    "ModelConfig",
    "Phase",
    "check_model",
    "create_model",
    "gcn_moe",
    "list_models",
    "m3dphormer",
    "model_type",
    "mowst",
    "register_model",
]
