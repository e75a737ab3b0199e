<ul>
<li><a href="{slug}.html">{title}</a></li>
</ul>
