"""rabbitmqadmin, the command-line tool of RabbitMQ's management API, against 127.0.0.1:15672.

Each check runs the tool as a user would and compares what it prints and how it exits.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

TOOL = os.environ.get("RABBITMQADMIN") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "downloaded", "rabbitmqadmin")
SECONDS_MAX = 20  # one call of the tool
WAIT_SECONDS_MAX = 15
CHECKS = []


class Failed(Exception):
    """An expectation that did not hold."""


def check(name):
    """Registers a check under a name."""

    def register(function):
        CHECKS.append((name, function))
        return function

    return register


def run(*arguments, user="guest", password="guest", stdin=None):
    """Runs the tool; returns status, standard output and standard error."""
    command = [sys.executable, "-B", "-W", "ignore", TOOL, "--host=127.0.0.1", "--username=" + user, "--password=" + password]
    done = subprocess.run(command + list(arguments), input=stdin, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    return done.returncode, done.stdout, done.stderr


def ok(*arguments, **how):
    """Runs the tool, which must succeed; returns what it prints."""
    status, out, err = run(*arguments, **how)
    if status != 0:
        raise Failed("%s: exit status %d: %s%s" % (" ".join(arguments), status, out, err))
    return out.strip()


def refused(text, *arguments, **how):
    """Runs the tool, which must fail and say why."""
    status, out, err = run(*arguments, **how)
    if status == 0 or text not in out + err:
        raise Failed("%s: expected %r, got exit status %d: %s%s" % (" ".join(arguments), text, status, out, err))


def items(*arguments, **how):
    """What a list has, as objects."""
    return json.loads(ok("--format=raw_json", *arguments, **how))


def equal(what, got, expected):
    if got != expected:
        raise Failed("%s: expected %r, got %r" % (what, expected, got))


def until(what, look, expected):
    """Waits until look() returns what is expected."""
    end = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        got = look()
        if got == expected:
            return
        if time.monotonic() > end:
            raise Failed("%s: expected %r, got %r" % (what, expected, got))
        time.sleep(0.1)


def names(kind, *more, **how):
    return sorted(item["name"] for item in items(*more, "list", kind, "name", **how))


@check("declare, list and delete a queue")
def _():
    equal("verdict", ok("declare", "queue", "name=admin.q", "durable=false", 'arguments={"x-max-length":10}'), "queue declared")
    found = [q for q in items("list", "queues") if q["name"] == "admin.q"]
    equal("queues", [(q["durable"], q["arguments"], q["vhost"]) for q in found], [(False, {"x-max-length": 10}, "/")])
    equal("verdict", ok("delete", "queue", "name=admin.q"), "queue deleted")
    equal("names", "admin.q" in names("queues"), False)


@check("a queue of type quorum")
def _():
    ok("declare", "queue", "name=admin.quorum", "queue_type=quorum")
    equal("type", [q["type"] for q in items("list", "queues", "name", "type") if q["name"] == "admin.quorum"], ["quorum"])
    ok("delete", "queue", "name=admin.quorum")


@check("an inequivalent declaration is refused with its reason")
def _():
    ok("declare", "queue", "name=admin.same")
    refused("inequivalent arg 'durable' for queue 'admin.same' in vhost '/': received 'false' but current is 'true'", "declare", "queue", "name=admin.same", "durable=false")
    ok("delete", "queue", "name=admin.same")


@check("what is not there is not found")
def _():
    refused("Not found: /api/queues/%2F/admin.none", "delete", "queue", "name=admin.none")
    refused("Not found: /api/exchanges/%2F/admin.none", "delete", "exchange", "name=admin.none")


@check("a wrong password is refused")
def _():
    refused("Access refused: /api/queues", "list", "queues", password="wrong")


@check("declare, list and delete an exchange")
def _():
    ok("declare", "exchange", "name=admin.e", "type=topic", "internal=true", "auto_delete=false")
    found = [e for e in items("list", "exchanges") if e["name"] == "admin.e"]
    equal("exchange", [(e["type"], e["internal"], e["durable"]) for e in found], [("topic", True, True)])
    ok("delete", "exchange", "name=admin.e")


@check("bind, list and delete bindings")
def _():
    ok("declare", "queue", "name=admin.bound")
    ok("declare", "binding", "source=amq.topic", "destination=admin.bound", "routing_key=a.#/b c", 'arguments={"x":1}')
    ok("declare", "exchange", "name=admin.to", "type=fanout")
    ok("declare", "binding", "source=amq.topic", "destination=admin.to", "destination_type=exchange", "routing_key=k")
    found = [b for b in items("list", "bindings") if b["source"] == "amq.topic"]
    equal("bindings", sorted((b["destination"], b["destination_type"], b["routing_key"], len(b["arguments"])) for b in found),
          [("admin.bound", "queue", "a.#/b c", 1), ("admin.to", "exchange", "k", 0)])
    for binding in found:
        ok("delete", "binding", "source=amq.topic", "destination=" + binding["destination"], "destination_type=" + binding["destination_type"], "properties_key=" + binding["properties_key"])
    equal("left", [b for b in items("list", "bindings") if b["source"] == "amq.topic"], [])
    ok("delete", "queue", "name=admin.bound")
    ok("delete", "exchange", "name=admin.to")


@check("publish, get, and get without requeueing")
def _():
    ok("declare", "queue", "name=admin.msg")
    equal("verdict", ok("publish", "routing_key=admin.msg", "payload=hello", 'properties={"delivery_mode":2,"headers":{"h":[1,"x"]}}'), "Message published")
    equal("verdict", ok("publish", "routing_key=admin.msg", "payload=second"), "Message published")
    got = items("get", "queue=admin.msg", "count=1")
    equal("message", [(m["payload"], m["payload_encoding"], m["payload_bytes"], m["exchange"], m["routing_key"], m["redelivered"], m["message_count"]) for m in got],
          [("hello", "string", 5, "", "admin.msg", False, 1)])
    equal("properties", got[0]["properties"], {"delivery_mode": 2, "headers": {"h": [1, "x"]}})
    got = items("get", "queue=admin.msg", "count=5", "ackmode=ack_requeue_false")
    equal("messages", [(m["payload"], m["redelivered"]) for m in got], [("hello", True), ("second", False)])
    equal("nothing left", items("get", "queue=admin.msg"), [])
    ok("delete", "queue", "name=admin.msg")


@check("publish from standard input, and to nobody")
def _():
    ok("declare", "queue", "name=admin.stdin")
    ok("publish", "routing_key=admin.stdin", stdin="from a pipe")
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "payload")
        ok("get", "queue=admin.stdin", "payload_file=" + path, "ackmode=ack_requeue_false")
        with open(path, encoding="utf-8") as file:
            equal("payload", file.read(), "from a pipe")
    equal("verdict", ok("publish", "routing_key=admin.nobody", "payload=x"), "Message published but NOT routed")
    ok("delete", "queue", "name=admin.stdin")


@check("purge a queue")
def _():
    ok("declare", "queue", "name=admin.purged")
    for _ in range(3):
        ok("publish", "routing_key=admin.purged", "payload=x")

    def messages():
        return [q["messages"] for q in items("list", "queues", "name", "messages") if q["name"] == "admin.purged"]

    until("before", messages, [3])
    equal("verdict", ok("purge", "queue", "name=admin.purged"), "queue purged")
    until("after", messages, [0])
    ok("delete", "queue", "name=admin.purged")


@check("virtual hosts, users and permissions")
def _():
    ok("declare", "vhost", "name=admin/vh")
    ok("declare", "user", "name=ann", "password=pw", "tags=management")
    refused("Access refused", "--vhost=admin/vh", "list", "queues", user="ann", password="pw")
    ok("declare", "permission", "vhost=admin/vh", "user=ann", "configure=^a", "write=.*", "read=.*")
    equal("vhosts", names("vhosts", user="ann", password="pw"), ["admin/vh"])
    ok("--vhost=admin/vh", "declare", "queue", "name=a.q", user="ann", password="pw")
    refused("Access refused", "--vhost=admin/vh", "declare", "queue", "name=b.q", user="ann", password="pw")
    refused("Access refused", "declare", "queue", "name=a.q", user="ann", password="pw")
    refused("Access refused", "list", "users", user="ann", password="pw")
    equal("queues", names("queues", user="ann", password="pw"), ["a.q"])
    equal("permission", [p["configure"] for p in items("list", "permissions") if p["user"] == "ann"], ["^a"])
    ok("delete", "permission", "vhost=admin/vh", "user=ann")
    ok("delete", "user", "name=ann")
    refused("Access refused", "list", "queues", user="ann", password="pw")
    ok("delete", "vhost", "name=admin/vh")


@check("policies, operator policies, parameters and limits")
def _():
    ok("declare", "policy", "name=admin.p", "pattern=^admin", 'definition={"max-length":5}', "priority=7", "apply-to=queues")
    equal("policy", [(p["pattern"], p["definition"], p["priority"], p["apply-to"]) for p in items("list", "policies")], [("^admin", {"max-length": 5}, 7, "queues")])
    ok("delete", "policy", "name=admin.p")
    ok("declare", "operator_policy", "name=admin.o", "pattern=^admin", 'definition={"expires":60000}', "apply-to=queues")
    equal("operator policy", [p["definition"] for p in items("list", "operator_policies")], [{"expires": 60000}])
    ok("delete", "operator_policy", "name=admin.o")
    ok("declare", "parameter", "component=federation-upstream", "name=admin.u", 'value={"uri":"amqp://elsewhere"}')
    equal("parameter", [p["value"] for p in items("list", "parameters") if p["name"] == "admin.u"], [{"uri": "amqp://elsewhere"}])
    ok("delete", "parameter", "component=federation-upstream", "name=admin.u")
    ok("declare", "vhost_limit", "vhost=/", "name=max-queues", "value=1000")
    equal("limits", [limit["value"] for limit in items("list", "vhost_limits")], [{"max-queues": 1000}])
    ok("delete", "vhost_limit", "vhost=/", "name=max-queues")


@check("show overview and list nodes")
def _():
    equal("columns", sorted(json.loads(ok("--format=raw_json", "show", "overview", "cluster_name", "object_totals.queues"))[0]), ["cluster_name", "object_totals"])
    table = ok("show", "overview")
    if "rabbitmq_version" not in table or "queue_totals.messages" not in table:
        raise Failed("the table is " + table)
    equal("nodes", [n["type"] for n in items("list", "nodes", "name", "type", "mem_used")], ["disc"])


@check("sort, columns and formats")
def _():
    got = items("--sort=name", "--sort-reverse", "list", "exchanges", "name", "type")
    equal("order", got, sorted(got, key=lambda e: e["name"], reverse=True))
    equal("columns", {tuple(sorted(e)) for e in got}, {("name", "type")})
    equal("tsv", "amq.direct\tdirect" in ok("--format=tsv", "list", "exchanges", "name", "type").split("\n"), True)
    equal("bash", "amq.direct" in ok("--format=bash", "list", "exchanges").split(), True)
    if 'name="amq.direct"' not in ok("--format=kvp", "list", "exchanges", "name", "type"):
        raise Failed("kvp lacks amq.direct")


@check("export and import definitions")
def _():
    ok("declare", "queue", "name=admin.kept", 'arguments={"x-max-priority":3}')
    ok("declare", "binding", "source=amq.fanout", "destination=admin.kept", "routing_key=r")
    with tempfile.TemporaryDirectory() as directory:
        whole, one = os.path.join(directory, "all"), os.path.join(directory, "one")
        ok("export", whole)
        ok("--vhost=/", "export", one)
        ok("delete", "queue", "name=admin.kept")
        ok("import", whole)
        equal("queues", [q["arguments"] for q in items("list", "queues") if q["name"] == "admin.kept"], [{"x-max-priority": 3}])
        equal("bindings", [b["routing_key"] for b in items("list", "bindings") if b["source"] == "amq.fanout"], ["r"])
        ok("declare", "vhost", "name=admin.copy")
        ok("--vhost=admin.copy", "import", one)
        equal("copy", names("queues", "--vhost=admin.copy"), names("queues", "--vhost=/"))
        ok("delete", "vhost", "name=admin.copy")
        with open(whole, "w", encoding="utf-8") as file:
            file.write('{"queues":[{"name":"admin.new","vhost":"/"},{"name":"x","vhost":"nowhere"}]}')
        refused("nothing has changed", "import", whole)
        equal("all or nothing", "admin.new" in names("queues"), False)
    ok("delete", "queue", "name=admin.kept")


@check("list and close connections, with their channels and consumers")
def _():
    ok("declare", "queue", "name=admin.consumed")
    consumer = subprocess.Popen(["/usr/bin/amqp-consume", "--url", "amqp://guest:guest@127.0.0.1:5672", "--queue=admin.consumed", "cat"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        until("consumers", lambda: [c["queue"]["name"] for c in items("list", "consumers")], ["admin.consumed"])
        equal("channels", [(c["number"], c["user"]) for c in items("list", "channels")], [(1, "guest")])
        connections = items("list", "connections")
        equal("connections", [(c["user"], c["channels"], c["vhost"], c["protocol"]) for c in connections], [("guest", 1, "/", "AMQP 0-9-1")])
        ok("close", "connection", "name=" + connections[0]["name"])
        consumer.wait(WAIT_SECONDS_MAX)
        until("gone", lambda: items("list", "connections"), [])
    finally:
        if consumer.poll() is None:
            consumer.kill()
        consumer.wait()
        consumer.stderr.close()
    ok("delete", "queue", "name=admin.consumed")


def report(*fields):
    """A line for scores (../scores/doc.go), if it wants one."""
    path = os.environ.get("INTEROP_RESULTS")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write("\t".join(" ".join(str(field).split()) for field in fields) + "\n")


def main():
    status, version, _ = run("--version")
    report("client", "rabbitmqadmin " + (version.strip().split(" ")[-1] if status == 0 else "of unknown version"))
    passed = failed = 0
    for name, function in CHECKS:
        try:
            function()
        except (Failed, subprocess.TimeoutExpired, KeyError, ValueError) as error:
            failed += 1
            print("FAIL %s: %s" % (name, error))
            report("fail", name, error)
        else:
            passed += 1
            report("pass", name)
    report("done")
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


sys.exit(main())
