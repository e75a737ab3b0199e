import unittest

from tmpl import TemplateError, render


class TestValues(unittest.TestCase):
    def test_path(self):
        self.assertEqual(render("{{ a.b }} {{ c.1 }}", {"a": {"b": 1}, "c": "xyz"}), "1 y")

    def test_escape(self):
        self.assertEqual(render("{{ a }} {{ a | raw }}", {"a": "<b>"}), "&lt;b&gt; <b>")

    def test_filters(self):
        self.assertEqual(render("{{ a | join | upper }}", {"a": ["x", "y"]}), "X, Y")

    def test_unknown(self):
        for template in ("{{ b }}", "{{ a.b }}", "{{ a | nope }}"):
            with self.assertRaises(TemplateError, msg=template):
                render(template, {"a": {}})


class TestBlocks(unittest.TestCase):
    def test_for(self):
        template = "{% for x in xs %}{{ loop.index }}/{{ loop.length }}={{ x }};{% endfor %}"
        self.assertEqual(render(template, {"xs": "ab"}), "1/2=a;2/2=b;")

    def test_if(self):
        template = "{% for x in xs %}{{ x }}{% if loop.last %}.{% else %}, {% endif %}{% endfor %}"
        self.assertEqual(render(template, {"xs": [1, 2, 3]}), "1, 2, 3.")

    def test_set(self):
        self.assertEqual(render("{% set b = a.x %}{{ b }}{{ b }}", {"a": {"x": 4}}), "44")

    def test_loop_ends(self):
        with self.assertRaises(TemplateError):
            render("{% for x in xs %}{% endfor %}{{ x }}", {"xs": [1]})

    def test_malformed(self):
        for template in ("{% for x in xs %}", "{% if a %}", "{% endif %}", "{{ a", "{{ 1a }}"):
            with self.assertRaises(TemplateError, msg=template):
                render(template, {"xs": [], "a": 1})
