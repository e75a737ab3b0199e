"""The part of requests that agents of a shopping arena use, over the standard library."""

import http.client
import json as _json
import socket
import urllib.parse


class RequestException(IOError):
    """Something of a request went wrong."""


class ConnectionError(RequestException):  # noqa: A001, the name callers catch
    pass


class Timeout(RequestException):
    pass


class HTTPError(RequestException):
    pass


class JSONDecodeError(RequestException, ValueError):
    pass


class exceptions:  # noqa: N801, callers write requests.exceptions.Timeout
    RequestException = RequestException
    ConnectionError = ConnectionError
    Timeout = Timeout
    ReadTimeout = Timeout
    ConnectTimeout = Timeout
    HTTPError = HTTPError
    JSONDecodeError = JSONDecodeError


class Response:
    def __init__(self, status, reason, headers, content, url):
        self.status_code = status
        self.reason = reason
        self.headers = headers
        self.content = content
        self.url = url

    @property
    def ok(self):
        return self.status_code < 400

    @property
    def text(self):
        return self.content.decode("utf-8", "replace")

    def json(self, **kwargs):
        try:
            return _json.loads(self.content, **kwargs)
        except ValueError as e:
            raise JSONDecodeError(str(e)) from e

    def raise_for_status(self):
        if not self.ok:
            raise HTTPError(f"{self.status_code} {self.reason} for url: {self.url}")


def request(method, url, params=None, json=None, data=None, headers=None, timeout=None, **_):
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ConnectionError(f"no way to {url}: only the proxy can be reached")
    query = parts.query
    if params:
        pairs = [(k, v) for k, v in (params.items() if hasattr(params, "items") else params) if v is not None]
        more = urllib.parse.urlencode(pairs, doseq=True)
        query = f"{query}&{more}" if query and more else query or more
    target = urllib.parse.quote(parts.path or "/", safe="/%") + (f"?{query}" if query else "")
    head = {"Accept": "*/*", "Connection": "close"}
    body = None
    if json is not None:
        body = _json.dumps(json).encode("utf-8")
        head["Content-Type"] = "application/json"
    elif data is not None:
        if isinstance(data, dict):
            data = urllib.parse.urlencode(data)
            head["Content-Type"] = "application/x-www-form-urlencoded"
        body = data.encode("utf-8") if isinstance(data, str) else data
    head.update(headers or {})
    if isinstance(timeout, tuple):
        timeout = max(t for t in timeout if t is not None)
    c = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=timeout)
    try:
        c.request(method, target, body=body, headers=head)
        r = c.getresponse()
        return Response(r.status, r.reason, dict(r.getheaders()), r.read(), url)
    except socket.timeout as e:
        raise Timeout(str(e)) from e
    except (OSError, http.client.HTTPException) as e:
        raise ConnectionError(str(e)) from e
    finally:
        c.close()


def get(url, params=None, **kwargs):
    return request("GET", url, params=params, **kwargs)


def post(url, data=None, json=None, **kwargs):
    return request("POST", url, data=data, json=json, **kwargs)


class Session:
    def __init__(self):
        self.headers = {}

    def request(self, method, url, headers=None, **kwargs):
        return request(method, url, headers={**self.headers, **(headers or {})}, **kwargs)

    def get(self, url, **kwargs):
        return self.request("GET", url, **kwargs)

    def post(self, url, **kwargs):
        return self.request("POST", url, **kwargs)

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
