"""The import path of spec 4's package: `from sdk.register import register_tool`."""
