# Every target installs its requirements first and skips those that exist. Needs Python 3.11+.
ARGS ?=
PORT ?= 8040
N ?= 200
SEED ?=
TABLES ?=
MINUTES ?= 10
# Tests and demo start hundreds of Python processes: each would compile all its imports anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help wheel demo serve record-tutorial test clients chaos chaos-cluster check bench lock clean

help:
	@echo "make wheel    build dist/headrace-….whl, which pip installs: pip install 'dist/….whl[all]'"
	@echo "make demo     install the requirements, then run SQL on the flights data"
	@echo "make serve    install the requirements, then start a node on port $(PORT)"
	@echo "make test     install the requirements, PostgreSQL, nginx, YARN, Delta, Iceberg and Kafka included; run all"
	@echo "              tests; ARGS='-k NAME' is passed to pytest"
	@echo "make clients  run the clients of other projects against a node: beeline, JDBC, PyHive, dbt, ..."
	@echo "make chaos    run N=200 random histories with faults; SEED=… repeats a run or a history"
	@echo "make chaos-cluster"
	@echo "              run three hosts behind nginx for MINUTES=10 under load, while processes and hosts"
	@echo "              are killed, frozen and cut off; SEED=… repeats the faults of a run"
	@echo "make check    check format, lint, types and imports; run the tests that need no service"
	@echo "make bench    measure Headrace, plain Spark, Spark Connect and the Spark Thrift Server"
	@echo "make record-tutorial"
	@echo "              type the commands of the tutorial into a terminal; needs tmux; writes"
	@echo "              docs/tutorial/recording.txt"
	@echo "make lock     regenerate requirements/*.lock; UPGRADE=1 selects newer versions"
	@echo "make clean    remove installed requirements and caches; keep the state in .headrace"

wheel:
	@scripts/build-wheel

demo:
	@scripts/setup demo
	@scripts/setup-web --optional
	@.venv/bin/python examples/demo.py

record-tutorial:
	@$(or $(PYTHON),python3) scripts/record_tutorial.py

serve:
	@scripts/setup demo
	@scripts/setup-web --optional
	@.venv/bin/headrace serve --port $(PORT) $(ARGS)

test:
	@scripts/setup test
	@scripts/setup-postgres
	@scripts/setup-nginx
	@scripts/setup-oidc
	@scripts/setup-web
	@scripts/setup-browser
	@scripts/setup-ldap
	@scripts/setup-systemd
	@scripts/setup-prometheus
	@scripts/setup-jars yarn catalogs kafka-broker kafka-connector mongodb s3
	@.venv/bin/python -m headrace.control.host.class_archive
	.venv/bin/pytest -n 3 --no-loadscope-reorder $(ARGS)

clients:
	@scripts/setup test
	@scripts/setup-postgres
	@scripts/setup-nginx
	@scripts/setup-ldap
	@scripts/setup-jars catalogs jdbc
	@.venv/bin/python -m headrace.control.host.class_archive
	.venv/bin/pytest -m clients tests/clients $(ARGS)

chaos:
	@scripts/setup test
	@scripts/setup-postgres
	@scripts/setup-nginx
	@scripts/setup-jars catalogs kafka-broker kafka-connector mongodb s3
	@.venv/bin/python -m headrace.control.host.class_archive
	.venv/bin/python -m tests.faults $(N) $(SEED)
	$(if $(SEED),,.venv/bin/python -m tests.model_explorer)
	$(if $(SEED),,.venv/bin/python -m tests.faults.runs $(N))
	$(if $(SEED),,.venv/bin/python -m tests.faults.runs --sqlite $(N))
	$(if $(SEED),,.venv/bin/python -m tests.faults.tables $(TABLES))
	$(if $(SEED),,.venv/bin/python -m tests.faults.concurrent_inserts)
	$(if $(SEED),,.venv/bin/python -m tests.faults.kafka_streams)
	$(if $(SEED),,.venv/bin/pytest -n 2 --no-loadscope-reorder -m matrix)

chaos-cluster:
	@scripts/setup test
	@scripts/setup-postgres
	@scripts/setup-nginx
	@.venv/bin/python -m headrace.control.host.class_archive
	.venv/bin/python -m tests.faults.chaos_cluster $(MINUTES) $(SEED)

check:
	@scripts/setup test
	@scripts/setup-web
	.venv/bin/ruff format --check
	.venv/bin/ruff check
	.venv/bin/mypy
	.venv/bin/lint-imports
	scripts/check-web
	.venv/bin/pytest -q -m "not spark and not postgres and not yarn and not catalogs and not kafka and not nginx and not oidc and not ldap and not promtool and not browser" $(ARGS)

bench:
	@scripts/setup bench
	@scripts/setup-postgres
	@scripts/setup-jars catalogs
	@scripts/setup-wrk
	@scripts/setup-ldap
	.venv/bin/python -m benchmarks $(ARGS)

lock:
	@scripts/lock

clean:
	rm -rf .venv .tools build dist web/node_modules src/headrace/frontends/web/assets/built .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} +
