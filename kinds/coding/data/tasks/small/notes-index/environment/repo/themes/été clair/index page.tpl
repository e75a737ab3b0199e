<h1>Été clair</h1>
<ol>
<li><a href="{title}.html">{title}</a></li>
</ol>
