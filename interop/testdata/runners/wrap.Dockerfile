FROM apt:trixie
RUN apt-get update && apt-get install -y --no-install-recommends nodejs npm && rm -rf /var/lib/apt/lists/*
RUN npm install -g --no-audit --no-fund jest@30.5.2
