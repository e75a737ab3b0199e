# Stands in for the base images of published tasks, which no registry here has.
FROM debian:12
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-pip python3-venv python-is-python3 git curl jq procps && pip install --break-system-packages pytest==8.4.1
ENV PIP_BREAK_SYSTEM_PACKAGES=1
WORKDIR /app
