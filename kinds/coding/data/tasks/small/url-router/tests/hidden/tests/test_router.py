import unittest

from urlroute import MethodNotAllowed, NotFound, RouteError, Router


class TestRouter(unittest.TestCase):
    def setUp(self):
        self.router = Router()
        for method, pattern, handler in (
            ("GET", "/", "home"),
            ("GET", "/users", "list"),
            ("POST", "/users", "create"),
            ("GET", "/users/{id:int}", "by_id"),
            ("GET", "/users/{name}", "by_name"),
            ("GET", "/static/{path:rest}", "static"),
        ):
            self.router.add(method, pattern, handler)

    def test_static(self):
        self.assertEqual(self.router.match("GET", "/"), ("home", {}))
        self.assertEqual(self.router.match("POST", "/users/"), ("create", {}))

    def test_parameters(self):
        self.assertEqual(self.router.match("GET", "/users/7"), ("by_id", {"id": 7}))
        self.assertEqual(self.router.match("GET", "/users/ann"), ("by_name", {"name": "ann"}))

    def test_rest(self):
        match = self.router.match("GET", "/static/css/site.css")
        self.assertEqual(match, ("static", {"path": "css/site.css"}))

    def test_not_found(self):
        for path in ("/nothing", "/users/7/x", "/static", "/users//"):
            with self.assertRaises(NotFound, msg=path):
                self.router.match("GET", path)

    def test_method(self):
        with self.assertRaises(MethodNotAllowed) as caught:
            self.router.match("PUT", "/users")
        self.assertEqual(caught.exception.allowed, ["GET", "POST"])

    def test_twice(self):
        with self.assertRaises(RouteError):
            self.router.add("GET", "/users/{other}", "x")
