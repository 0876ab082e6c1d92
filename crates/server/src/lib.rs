//! The front doors: REST and MCP. They hold no decision.
