"""What the cluster tools' `sdk.register` has, from `toolkeep_node`."""

from toolkeep_node import ClusterLocalTools, register_tool, registry

__all__ = ["ClusterLocalTools", "register_tool", "registry"]
