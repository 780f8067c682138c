import json
import re
import sys
import urllib.parse
import urllib.request

url = json.load(sys.stdin)["url"]
try:
    page = urllib.request.urlopen(url, timeout=10).read().decode("utf-8", "replace")
except OSError as error:
    print(json.dumps({"error": f"{url}: {error}"}))
    sys.exit(1)
links = re.findall(r"""href=['"]([^'"]+)""", page)
text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
print(json.dumps({"result": "\n".join([text, *(urllib.parse.urljoin(url, link) for link in links)])}))
