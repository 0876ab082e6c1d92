# Waits for the gateway at argv[1], tells it of the MCP server at argv[2], and prints the token to send.
import json, os, subprocess, sys, time, urllib.error, urllib.request

base, upstream = sys.argv[1:3]
words = ["--username", os.environ["PLATFORM_ADMIN_EMAIL"], "--exp", "600", "--admin"]
words += ["--secret", os.environ["JWT_SECRET_KEY"]]
create = [sys.executable, "-m", "mcpgateway.utils.create_jwt_token"]
made = subprocess.run(create + words, capture_output=True, text=True, check=True)
token = made.stdout.split()[-1]


def ask(method, path, body=None):
    head = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, head, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


begun = time.monotonic()
while True:
    try:
        ask("GET", "/health")
        break
    except (urllib.error.URLError, ConnectionError):
        if time.monotonic() - begun > 240:
            sys.exit("the gateway does not answer")
        time.sleep(0.2)
ask("POST", "/gateways", {"name": "bench", "url": upstream, "transport": "STREAMABLEHTTP"})
print(token)
