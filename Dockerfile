# One image, one command per service: `minara serve` runs all of them in one process.
FROM python:3.11-slim AS build
WORKDIR /src
COPY requirements.lock pyproject.toml ./
COPY scripts/bootstrap.sh scripts/bootstrap.sh
COPY libs libs
COPY services services
RUN bash scripts/bootstrap.sh /opt/minara-venv

FROM python:3.11-slim
RUN useradd --uid 10001 --create-home minara
COPY --from=build /src /src
COPY --from=build /opt/minara-venv /opt/minara-venv
ENV PATH=/opt/minara-venv/bin:$PATH MINARA_DATA_DIR=/data
USER minara
VOLUME /data
ENTRYPOINT ["minara"]
CMD ["serve", "--host", "0.0.0.0"]
