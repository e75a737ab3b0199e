"""The way to the arena's proxy: search and models."""

import os
import time

import requests


class ProxyClient:
    """GET and POST with retries. Whatever is not a 200 with JSON is None.

    max_retries counts attempts. Between attempts it sleeps min(delay * 2**i, 10)
    seconds, i from 0, where delay is rate_limit_retry_delay after a 429.
    """

    def __init__(self, proxy_url=None, timeout=120, max_retries=3, retry_delay=2, rate_limit_retry_delay=5, api_key=None):
        self.proxy_url = (proxy_url or os.environ.get("SANDBOX_PROXY_URL", "http://proxy:80")).rstrip("/")
        self.timeout = timeout
        self.max_retries = max_retries
        self.retry_delay = retry_delay
        self.rate_limit_retry_delay = rate_limit_retry_delay
        self.api_key = api_key or os.environ.get("CHUTES_ACCESS_TOKEN")

    def get(self, path, params=None):
        params = {k: v for k, v in (params or {}).items() if v is not None}
        return self._call("GET", path, params=params)

    def post(self, path, json_data=None):
        headers = {}
        if "/inference/" in path and self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        return self._call("POST", path, json=json_data, headers=headers)

    def _call(self, method, path, **kwargs):
        url = self.proxy_url + "/" + path.lstrip("/")
        for attempt in range(self.max_retries):
            delay = self.retry_delay
            try:
                reply = requests.request(method, url, timeout=self.timeout, **kwargs)
                if reply.status_code == 200:
                    return reply.json()
                if reply.status_code == 429:
                    delay = self.rate_limit_retry_delay
            except (requests.RequestException, ValueError):
                pass
            if attempt + 1 < self.max_retries:
                time.sleep(min(delay * 2**attempt, 10))
        return None
