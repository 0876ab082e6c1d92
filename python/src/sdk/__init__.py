"""The import path of the cluster tools' package: `from sdk.register import register_tool`."""
