"""Hooks of a StaticSite: what should exist for it, as an answer to what is there.

Needs Python 3.11 and nothing else. See README.md for how to run it.

A hook is a function from JSON to JSON. It is called whenever the site or one of its children changes, and with the
same input it must give the same output: it keeps nothing, looks nothing up and waits for nothing. To change the
cluster it says what should be there.
"""

import argparse
import json
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

IMAGE = "nginx:1.29-alpine"


def sync(request: dict) -> dict:
    """Return the children that a site should have, and its status."""
    site, observed = request["parent"], request["children"]
    name, namespace = site["metadata"]["name"], site["metadata"]["namespace"]
    deployment = observed["Deployment.apps/v1"].get(f"{namespace}/{name}", {})
    return {
        "children": [pages(site), servers(site), service(site)],
        "status": {
            "pages": len(site["spec"]["pages"]),
            "readyReplicas": deployment.get("status", {}).get("readyReplicas", 0),
            "url": f"http://{name}.{namespace}",
        },
    }


def finalize(request: dict) -> dict:
    """Take a site down that is being deleted: the door first, then the house."""
    site, observed = request["parent"], request["children"]
    if observed["Service.v1"]:
        return {"children": [pages(site), servers(site)], "finalized": False}
    return {"children": [], "finalized": not any(observed.values())}


def pages(site: dict) -> dict:
    """Return the ConfigMap with the site's files."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": site["metadata"]["name"], "labels": labels(site)},
        "data": site["spec"]["pages"],
    }


def servers(site: dict) -> dict:
    """Return the Deployment of the web servers."""
    container = {
        "name": "nginx",
        "image": IMAGE,
        "ports": [{"containerPort": 80}],
        "volumeMounts": [{"name": "pages", "mountPath": "/usr/share/nginx/html", "readOnly": True}],
        "readinessProbe": {"httpGet": {"path": "/", "port": 80}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": site["metadata"]["name"], "labels": labels(site)},
        "spec": {
            "replicas": site["spec"]["replicas"],
            "selector": {"matchLabels": labels(site)},
            "template": {
                "metadata": {"labels": labels(site)},
                "spec": {
                    "containers": [container],
                    "volumes": [{"name": "pages", "configMap": {"name": site["metadata"]["name"]}}],
                },
            },
        },
    }


def service(site: dict) -> dict:
    """Return the Service in front of the web servers."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": site["metadata"]["name"], "labels": labels(site)},
        "spec": {"selector": labels(site), "ports": [{"port": 80, "targetPort": 80}]},
    }


def labels(site: dict) -> dict:
    """Return the labels by which a site's pods are found."""
    return {"staticsites.example.dev/site": site["metadata"]["name"]}


HOOKS = {"/sync": sync, "/finalize": finalize}


class Handler(BaseHTTPRequestHandler):
    """Answers POST requests with what the hook of that path returns, and faults with 500 and the reason."""

    protocol_version = "HTTP/1.1"  # connections are used again
    wbufsize = -1  # header and body leave together

    def do_POST(self) -> None:
        """Call a hook."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        hook = HOOKS.get(self.path)
        if hook is None:
            self.answer(404, {"error": f"no hook at {self.path}; there are {', '.join(HOOKS)}"})
            return
        try:
            self.answer(200, hook(json.loads(body)))
        except Exception as e:  # whatever it is: this request fails, the others go on
            self.answer(500, {"error": f"{type(e).__name__}: {e}"})

    def answer(self, status: int, message: dict) -> None:
        """Send a JSON message."""
        data = json.dumps(message).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    """Serve the hooks until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(description="Hooks of the StaticSite example.")
    help_text = "default: %(default)s; port 0 is a free one"
    parser.add_argument("--listen", default="127.0.0.1:8090", metavar="HOST:PORT", help=help_text)
    host, _, port = parser.parse_args().listen.rpartition(":")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with ThreadingHTTPServer((host, int(port)), Handler) as server:
        server.daemon_threads = True
        print(f"serving {', '.join(HOOKS)} at http://{host}:{server.server_port}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
