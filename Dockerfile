# One image for all of Minara: `minara service <name>` runs one service, `minara serve` all of them.
# BASE is any image with Python 3.11 to 3.13 as python3, its venv module, and useradd.
ARG BASE=python:3.11-slim

# What ships from the lock, in an environment of its own. It changes seldom, so it comes first.
FROM ${BASE} AS dependencies
WORKDIR /src
COPY requirements.lock ./
RUN awk '/^[a-z]/ { wanted = /^uv(-build)?==/ } wanted' requirements.lock > build.lock \
    && python3 -m venv /opt/build \
    && /opt/build/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check \
        --require-hashes -r build.lock
ENV UV_PYTHON_DOWNLOADS=never UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy
COPY requirements-image.lock ./
RUN /opt/build/bin/uv venv --quiet --python "$(command -v python3)" /opt/minara \
    && /opt/build/bin/uv pip install --quiet --python /opt/minara/bin/python \
        --require-hashes -r requirements-image.lock \
    && for packages in /opt/minara/lib/python3*/site-packages; do \
        echo /opt/minara-own > "$packages/minara-own.pth"; done

# Minara's own packages, beside the environment: a change of ours is one small layer.
FROM dependencies AS own
COPY libs libs
COPY services services
RUN for member in libs/* services/*; do \
        /opt/build/bin/uv build --quiet --wheel --no-build-isolation \
            --python /opt/build/bin/python --out-dir /src/wheels "$member" || exit 1; done \
    && /opt/build/bin/uv pip install --quiet --python /opt/minara/bin/python --no-deps \
        --target /opt/minara-own wheels/*.whl

FROM ${BASE}
# A new volume takes owner and mode from the folder it is mounted on; these are empty, since several
# containers may fill one volume at the same time.
RUN useradd --uid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin minara \
    && install -d -o minara -g minara -m 0700 /data /public-keys /installation \
        /installation/traces /installation/keys /installation/keys/orchestrator \
        /installation/keys/tools /installation/keys/skills /installation/keys/workspace \
        /installation/keys/gateway
COPY --from=dependencies /opt/minara /opt/minara
COPY --from=own /opt/minara-own /opt/minara-own
ENV PATH=/opt/minara/bin:/opt/minara-own/bin:$PATH MINARA_DATA_DIR=/data HOME=/data \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /data
USER 10001:10001
EXPOSE 8080
# For `minara serve`; docker-compose.yml asks each gRPC service for its own health.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-m", "minara_gateway.cli_health", "http", "127.0.0.1:8080"]
ENTRYPOINT ["minara"]
CMD ["serve", "--host", "0.0.0.0"]
