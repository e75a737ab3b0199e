import unittest

from urlroute import MethodNotAllowed, NotFound, Router


def router(*routes):
    r = Router()
    for route in routes:
        method, pattern, handler = route.split(" ")
        r.add(method, pattern, handler)
    return r


class TestBacktracking(unittest.TestCase):
    def test_static_leads_nowhere(self):
        r = router("GET /users/new new", "GET /users/{id}/edit edit")
        self.assertEqual(r.match("GET", "/users/new/edit"), ("edit", {"id": "new"}))
        self.assertEqual(r.match("GET", "/users/new"), ("new", {}))

    def test_int_leads_nowhere(self):
        r = router("GET /f/{id:int}/raw raw", "GET /f/{name}/info info")
        self.assertEqual(r.match("GET", "/f/7/info"), ("info", {"name": "7"}))
        self.assertEqual(r.match("GET", "/f/7/raw"), ("raw", {"id": 7}))

    def test_rest_last(self):
        r = router("GET /files/{id:int}/raw raw", "GET /files/{path:rest} file")
        self.assertEqual(r.match("GET", "/files/7/x"), ("file", {"path": "7/x"}))
        self.assertEqual(r.match("GET", "/files/a/x"), ("file", {"path": "a/x"}))
        self.assertEqual(r.match("GET", "/files/7"), ("file", {"path": "7"}))

    def test_rest_far_above(self):
        r = router("GET /{all:rest} all", "GET /a/{b}/{c:int}/d deep")
        self.assertEqual(r.match("GET", "/a/b/1/d"), ("deep", {"b": "b", "c": 1}))
        self.assertEqual(r.match("GET", "/a/b/1/e"), ("all", {"all": "a/b/1/e"}))

    def test_from_the_left(self):
        r = router("GET /{x}/b right", "GET /a/{y} left")
        self.assertEqual(r.match("GET", "/a/b"), ("left", {"y": "b"}))
        self.assertEqual(r.match("GET", "/c/b"), ("right", {"x": "c"}))

    def test_values_do_not_leak(self):
        r = router("GET /{a:int}/{b:int}/x one", "GET /{c}/{d}/y two")
        self.assertEqual(r.match("GET", "/1/2/y"), ("two", {"c": "1", "d": "2"}))

    def test_empty_part_is_no_parameter(self):
        r = router("GET /a/{b}/c c")
        with self.assertRaises(NotFound):
            r.match("GET", "/a//c")

    def test_nothing_fits(self):
        r = router("GET /a/b ab", "GET /{x}/c xc")
        with self.assertRaises(NotFound):
            r.match("GET", "/a/d")

    def test_prefix_is_no_route(self):
        r = router("GET /a/b/c abc", "GET /{x}/b xb")
        self.assertEqual(r.match("GET", "/a/b"), ("xb", {"x": "a"}))


class TestMethods(unittest.TestCase):
    def test_other_route_answers(self):
        r = router("GET /users/new form", "DELETE /users/{id} delete")
        self.assertEqual(r.match("DELETE", "/users/new"), ("delete", {"id": "new"}))
        self.assertEqual(r.match("GET", "/users/new"), ("form", {}))

    def test_allowed_of_all(self):
        r = router("GET /users/new form", "DELETE /users/{id} delete", "PUT /{all:rest} put", "POST /x x")
        with self.assertRaises(MethodNotAllowed) as caught:
            r.match("PATCH", "/users/new")
        self.assertEqual(caught.exception.allowed, ["DELETE", "GET", "PUT"])
