# The module API's verbs for Toolkeep. Those that speak to the server run `toolkeep`; those that drive a module
# run what is configured for it in modules.mk:
#
#     RESTART_research = docker compose restart research
#     LOGS_research    = docker compose logs -f research
#     BUILD_research   = docker compose build research
#
# The same for what stands around: UP, DOWN, INFRA, INFRA_DOWN, PORTAL_RESTART, PORTAL_LOGS,
# BOTS_RESTART, BOTS_LOGS, WORKER_BUILD, CORE_LOGS (the server logs to its standard error).

TOOLKEEP ?= toolkeep
CARGO    ?= cargo
REDIS_URL ?= redis://127.0.0.1:6379
-include modules.mk

# Runs the command in the variable $(1), or says what to do.
configured = $(if $($(1)),$($(1)),@echo "no command for '$@': set $(1) in modules.mk, for example '$(1) = $(2)'" >&2; exit 1)
# The same for the module M.
of_module = $(if $(M),$(call configured,$(1)_$(M),docker compose $(2) $(M)),@echo "say which module: make $@ M=NAME" >&2; exit 1)
# A verb that Toolkeep has no need of, and what replaces it.
replaced = @echo "$@: $(1)"

.DEFAULT_GOAL := help
.PHONY: up down restart status setup migrate infra infra-down build build-core build-module \
	build-worker restart-core restart-module restart-portal restart-bots logs logs-core logs-module \
	logs-portal logs-bots create-owner list-users clear-history list-personas list-modules \
	refresh-tools shell psql redis-cli test test-cov test-install clean clean-volumes help

up: ## Start what UP says, else the server
	$(if $(UP),$(UP),$(TOOLKEEP) serve)
down: ## Stop what DOWN says
	$(if $(DOWN),$(DOWN),$(call replaced,end the server with Ctrl-C or SIGTERM))
restart: down up ## Stop and start
status: ## How the server and its sources stand
	$(TOOLKEEP) source list
setup: ## Look whether everything is in place
	$(TOOLKEEP) doctor
migrate: ## Not needed
	$(call replaced,the store has one format and opens by itself)
infra: ## Start what INFRA says, such as a Redis
	$(call configured,INFRA,docker compose up -d redis)
infra-down: ## Stop what INFRA_DOWN says
	$(call configured,INFRA_DOWN,docker compose stop redis)
build: build-core ## Build the server
build-core: ## Build the server
	$(CARGO) build --release --bin toolkeep
build-module: ## Build the module M
	$(call of_module,BUILD,build)
build-worker: ## Build what WORKER_BUILD says
	$(call configured,WORKER_BUILD,docker compose build worker)
restart-core: ## Not needed
	$(call replaced,the server follows its configuration; end it and run 'make up' to start it anew)
restart-module: ## Restart the module M, and discover it anew
	$(call of_module,RESTART,restart)
	$(TOOLKEEP) module refresh
restart-portal: ## Restart what PORTAL_RESTART says
	$(call configured,PORTAL_RESTART,docker compose restart portal)
restart-bots: ## Restart what BOTS_RESTART says
	$(call configured,BOTS_RESTART,docker compose restart bots)
logs: ## The record, newest first
	$(TOOLKEEP) record list
logs-core: ## The log that CORE_LOGS shows
	$(call configured,CORE_LOGS,docker compose logs toolkeep)
logs-module: ## The log of the module M
	$(call of_module,LOGS,logs)
logs-portal: ## The log that PORTAL_LOGS shows
	$(call configured,PORTAL_LOGS,docker compose logs portal)
logs-bots: ## The log that BOTS_LOGS shows
	$(call configured,BOTS_LOGS,docker compose logs bots)
create-owner: ## Not needed
	$(call replaced,the first start writes owner.key into the data directory; 'toolkeep serve --make-keys' writes a lost one anew)
list-users: ## The users and their levels
	$(TOOLKEEP) user list
clear-history: ## Not there
	$(call replaced,the record is append-only and is not cleared)
list-personas: ## The personas and their modules
	$(TOOLKEEP) persona list
list-modules: ## The modules and their health
	$(TOOLKEEP) module list
refresh-tools: ## Discover all modules anew
	$(TOOLKEEP) module refresh
shell: ## Not needed
	$(call replaced,the command line is 'toolkeep'; 'toolkeep --help' shows its commands)
psql: ## Not there
	$(call replaced,there is no Postgres; 'toolkeep user list' and 'toolkeep persona list' show what stood there)
redis-cli: ## The Redis at REDIS_URL
	redis-cli -u $(REDIS_URL)
test: ## All tests
	$(CARGO) xtask test
test-cov: ## Not there
	$(call replaced,docs/reference/compatibility names the test of each contract)
test-install: ## What the tests need
	$(CARGO) xtask provision
clean: ## Remove what was built
	$(CARGO) clean
clean-volumes: ## Not there
	$(call replaced,the data directory holds the record; remove it by hand if it is to go)
help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
