"""Models kept current."""

from termwise.online.estimator import OnlineRidge

__all__ = ["OnlineRidge"]
