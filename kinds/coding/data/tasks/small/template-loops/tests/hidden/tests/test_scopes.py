import unittest

from tmpl import TemplateError, render


class TestScopes(unittest.TestCase):
    def test_outer_loop_is_back(self):
        template = (
            "{% for o in os %}{{ loop.index }}:{% for i in o %}{{ i }}{% endfor %}"
            "({{ loop.index }}/{{ loop.length }});{% endfor %}"
        )
        self.assertEqual(render(template, {"os": ["ab", "c"]}), "1:ab(1/2);2:c(2/2);")

    def test_hidden_name_is_back(self):
        template = "{% for name in names %}{{ name }} {% endfor %}by {{ name }}"
        self.assertEqual(render(template, {"names": ["a", "b"], "name": "Ann"}), "a b by Ann")

    def test_hidden_name_survives_empty_loop(self):
        template = "{% for name in names %}{% endfor %}{{ name }}"
        self.assertEqual(render(template, {"names": [], "name": "Ann"}), "Ann")

    def test_same_name_nested(self):
        template = "{% for x in xs %}{% for x in x %}{{ x }}{% endfor %}={{ x | join }};{% endfor %}"
        self.assertEqual(render(template, {"xs": [[1, 2], [3]]}), "12=1, 2;3=3;")

    def test_user_value_called_loop(self):
        template = "{% for x in xs %}{{ loop.index }}{% endfor %}{{ loop }}"
        self.assertEqual(render(template, {"xs": "ab", "loop": "mine"}), "12mine")

    def test_set_ends_with_the_loop(self):
        template = "{% set y = a %}{% for x in xs %}{% set y = x %}{{ y }}{% endfor %}{{ y }}"
        self.assertEqual(render(template, {"xs": [1, 2], "a": 0}), "120")

    def test_set_does_not_reach_the_next_round(self):
        template = "{% for x in xs %}{% if x %}{% set y = x %}{% endif %}{{ y }}{% endfor %}"
        self.assertEqual(render(template, {"xs": [1, 0, 2], "y": 9}), "192")

    def test_set_in_if_stays(self):
        template = "{% if a %}{% set y = a %}{% endif %}{{ y }}"
        self.assertEqual(render(template, {"a": 5}), "5")

    def test_caller_keeps_its_dict(self):
        context = {"xs": [1], "x": 0}
        render("{% set z = x %}{% for x in xs %}{% set w = x %}{% endfor %}", context)
        self.assertEqual(context, {"xs": [1], "x": 0})

    def test_parent(self):
        template = "{% for o in os %}{% for i in o %}{{ loop.parent.index }}.{{ loop.index }} {% endfor %}{% endfor %}"
        self.assertEqual(render(template, {"os": ["ab", "c"]}), "1.1 1.2 2.1 ")

    def test_outermost_has_no_parent(self):
        with self.assertRaises(TemplateError):
            render("{% for x in xs %}{{ loop.parent.index }}{% endfor %}", {"xs": [1], "loop": {"index": 7}})

    def test_loop_names_end(self):
        for tail in ("{{ x }}", "{{ loop }}", "{{ y }}"):
            with self.assertRaises(TemplateError, msg=tail):
                render("{% for x in xs %}{% set y = x %}{% endfor %}" + tail, {"xs": [1]})
