# Stands in for the base images of published tasks whose verifiers call rewardkit, which wants Python 3.12 or newer.
FROM debian:13
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-pip python3-venv python-is-python3 git curl jq procps && pip install --break-system-packages pytest==8.4.1 harbor-rewardkit==0.1.4
ENV PIP_BREAK_SYSTEM_PACKAGES=1
WORKDIR /app
