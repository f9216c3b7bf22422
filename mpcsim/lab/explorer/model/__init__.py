"""Model of an explored session as data, without a widget."""

from mpcsim.lab.explorer.model.checks import CHECKS
from mpcsim.lab.explorer.model.knowledge_trace import KnowledgeTrace

__all__ = [
    "CHECKS",
    "KnowledgeTrace",
]
