"""Lists the breaking changes between two OpenAPI documents.

    additive.py OLD NEW

The exit status is 0 if the new document only adds to the old one, else 1. The rule is the promise of
docs/http.md: a client of the old document that ignores unknown members and values works with the
new one.
"""

import json
import sys

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
# Keywords that accept more requests with a larger value, and those that do with a smaller value.
UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")


class Dangling(ValueError):
    """A reference to a missing part of the document."""


class Comparison:
    """Two documents and the breaking changes between them."""

    def __init__(self, old, new):
        self.old, self.new = old, new
        self.found = []
        self.compared = set()

    def breaks(self, place, what):
        self.found.append(f"{place}: {what}")

    def removed(self, place, old, new, what):
        """Reports the names that were removed; returns those that both have."""
        for name in old:
            if name not in new:
                self.breaks(place, f"{what} {name} was removed")
        return [name for name in old if name in new]

    def documents(self):
        old, new = self.old["paths"], self.new["paths"]
        for path in self.removed("paths", old, new, "the path"):
            methods = ({m: o for m, o in item.items() if m in METHODS} for item in (old[path], new[path]))
            before, after = methods
            for method in self.removed(path, before, after, "the method"):
                self.operation(f"{method.upper()} {path}", before[method], after[method])
        self.schemes()
        self.webhooks()
        return self.found

    def webhooks(self):
        """Compares webhooks. The same rules apply to their bodies as to responses."""
        old, new = (one.get("webhooks", {}) for one in (self.old, self.new))
        for name in self.removed("webhooks", old, new, "the webhook"):
            before, after = old[name]["post"], new[name]["post"]
            names = ({f"{p['in']} {p['name']}" for p in o["parameters"]} for o in (before, after))
            self.removed(name, *map(sorted, names), "the parameter")
            bodies = (before["requestBody"], after["requestBody"])
            self.contents(f"{name} body", *bodies, is_request=False)

    def schemes(self):
        """Compares the authentication schemes, by what a client sends."""
        documents = (self.old, self.new)
        old, new = (one.get("components", {}).get("securitySchemes", {}) for one in documents)
        for name in self.removed("securitySchemes", old, new, "the scheme"):
            for member in ("type", "in", "name", "scheme"):
                before, after = old[name].get(member), new[name].get(member)
                if before != after:
                    self.breaks(f"securitySchemes {name}", f"{member} was {before} and is {after}")

    def operation(self, place, old, new):
        if old.get("operationId") != new.get("operationId"):
            self.breaks(place, f"{old.get('operationId')} is {new.get('operationId')} now")
        self.security(place, old, new)
        self.parameters(place, old, new)
        self.request_body(place, old.get("requestBody"), new.get("requestBody"))
        before, after = old["responses"], new["responses"]
        for status in self.removed(place, before, after, "the status"):
            response = (resolve(self.old, before[status]), resolve(self.new, after[status]))
            self.response(f"{place} {status}", *response)

    def security(self, place, old, new):
        def requirements(document, operation):
            named = operation.get("security", document.get("security", []))
            return {json.dumps(requirement, sort_keys=True) for requirement in named or [{}]}

        before, after = requirements(self.old, old), requirements(self.new, new)
        if "{}" not in after:
            self.removed(place, sorted(before), after, "the security requirement")

    def parameters(self, place, old, new):
        def by_name(document, operation):
            named = [resolve(document, one) for one in operation.get("parameters", [])]
            return {f"{one['in']} {one['name'].lower()}": one for one in named}

        before, after = by_name(self.old, old), by_name(self.new, new)
        for name in self.removed(place, before, after, "the parameter"):
            if after[name].get("required") and not before[name].get("required"):
                self.breaks(place, f"the parameter {name} is required now")
            schemas = (one[name].get("schema", {}) for one in (before, after))
            self.schema(f"{place} {name}", *schemas, is_request=True)
        for name, parameter in after.items():
            if name not in before and parameter.get("required"):
                self.breaks(place, f"the new parameter {name} is required")

    def request_body(self, place, old, new):
        old, new = resolve(self.old, old or {}), resolve(self.new, new or {})
        if new.get("required") and not old.get("required"):
            self.breaks(place, "the body is required now")
        if old:
            self.contents(f"{place} body", old, new, is_request=True)

    def response(self, place, old, new):
        before, after = ({n.lower() for n in r.get("headers", {})} for r in (old, new))
        self.removed(place, sorted(before), after, "the header")
        self.contents(place, old, new, is_request=False)

    def contents(self, place, old, new, is_request):
        before, after = old.get("content", {}), new.get("content", {})
        for kind in self.removed(place, before, after, "the media type"):
            schemas = (one[kind].get("schema", {}) for one in (before, after))
            self.schema(f"{place} {kind}", *schemas, is_request=is_request)
            if kind == "application/problem+json":
                # The examples of problems list the codes.
                codes = (one[kind].get("examples", {}) for one in (before, after))
                self.removed(place, *codes, "the code")

    def schema(self, place, old, new, is_request):
        names = (old.get("$ref"), new.get("$ref"), is_request)
        if names[0] and names[1]:
            # A schema is compared once, at its first use.
            if names in self.compared:
                return
            self.compared.add(names)
        old, new = flat(self.old, old), flat(self.new, new)
        before, after = without_null(self.old, old), without_null(self.new, new)
        # A response may stop to be null, and a request may accept null in addition.
        if before and not after and not is_request:
            old = flat(self.old, before)
        if after and not before and is_request:
            new = flat(self.new, after)
        self.types(place, old, new, is_request)
        self.values(place, old, new, is_request)
        if is_request:
            self.bounds(place, old, new)
        self.members(place, old, new, is_request)
        for kind, name in (("items", "*"), ("additionalProperties", "…")):
            if isinstance(old.get(kind), dict) and isinstance(new.get(kind), dict):
                self.schema(f"{place}/{name}", old[kind], new[kind], is_request)
        self.unions(place, old, new, is_request)

    def types(self, place, old, new, is_request):
        before, after = types(old), types(new)
        wide, narrow = (after, before) if is_request else (before, after)
        if wide and (not narrow or narrow - wide):
            self.breaks(place, f"the type was {joined(before)} and is {joined(after)}")
        if old.get("format") != new.get("format") and (new.get("format") or not is_request):
            self.breaks(place, f"the format was {old.get('format')} and is {new.get('format')}")

    def values(self, place, old, new, is_request):
        before, after = values(old), values(new)
        if before and after:
            self.removed(place, before, after, "the value")
        elif after and is_request:
            self.breaks(place, "not every value is accepted now")
        elif before and not is_request:
            self.breaks(place, "it may have any value now")

    def bounds(self, place, old, new):
        for name in UPPER + LOWER:
            before, after = old.get(name), new.get(name)
            is_narrower = after is not None and (
                before is None or (after < before if name in UPPER else after > before)
            )
            if is_narrower:
                self.breaks(place, f"{name} was {before} and is {after}")
        if new.get("pattern") not in (None, old.get("pattern")):
            self.breaks(place, "the pattern has changed")

    def members(self, place, old, new, is_request):
        before, after = old.get("properties", {}), new.get("properties", {})
        for name in self.removed(place, before, after, "the member"):
            self.schema(f"{place}/{name}", before[name], after[name], is_request)
        was, now = set(old.get("required", [])), set(new.get("required", []))
        for name in sorted(now - was if is_request else was - now):
            if is_request or name in after:
                change = "is required now" if is_request else "may be missing now"
                self.breaks(place, f"the member {name} {change}")
        is_closed = new.get("additionalProperties") is False
        if is_request and is_closed and old.get("additionalProperties") is not False:
            self.breaks(place, "other members are refused now")

    def unions(self, place, old, new, is_request):
        for kind in ("oneOf", "anyOf"):
            if kind not in old:
                if kind in new and is_request and types(old) != {"null"} and not values(old):
                    self.breaks(place, "it is a union now")
                continue
            # Alternatives of a response may cease to exclude each other; nothing else becomes another kind.
            is_open = kind == "oneOf" and not is_request and kind not in new
            parts = new.get("anyOf" if is_open else kind, [new])
            tags = {tag for part in old[kind] for tag in constants(flat(self.old, part))}
            before = self.alternatives(place, self.old, old[kind], tags)
            after = self.alternatives(place, self.new, parts, tags)
            for name in self.removed(place, before, after, "the alternative"):
                self.schema(f"{place}({name})", before[name], after[name], is_request)

    def alternatives(self, place, document, schemas, tags):
        """Returns the parts of a union by the names that distinguish them."""
        named = {}
        for schema in schemas:
            name = alternative(document, schema, tags)
            if name in named:
                self.breaks(place, f"two alternatives are {name}")
            named[name] = schema
        return named


def resolve(document, described):
    while "$ref" in described:
        target = document
        for step in described["$ref"].removeprefix("#/").split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            if step not in target:
                raise Dangling(f"{described['$ref']} does not exist")
            target = target[step]
        described = target
    return described


def flat(document, schema):
    """Returns a schema with the members of all its parts."""
    schema = resolve(document, schema)
    if "allOf" not in schema:
        return schema
    whole = {name: value for name, value in schema.items() if name != "allOf"}
    whole["properties"] = dict(whole.get("properties", {}))
    whole["required"] = list(whole.get("required", []))
    for part in (flat(document, part) for part in schema["allOf"]):
        whole["properties"].update(part.get("properties", {}))
        whole["required"] += part.get("required", [])
        for name, value in part.items():
            whole.setdefault(name, value)
    return whole


def without_null(document, schema):
    """Returns the other part of a union of two parts of which one is null."""
    parts = schema.get("oneOf", schema.get("anyOf", []))
    others = [part for part in parts if types(flat(document, part)) != {"null"}]
    return others[0] if len(parts) == 2 and len(others) == 1 else None


def types(schema):
    named = schema.get("type", [])
    named = {named} if isinstance(named, str) else set(named)
    return named | {"integer"} if "number" in named else named


def values(schema):
    return [schema["const"]] if "const" in schema else schema.get("enum", [])


def constants(schema):
    """Returns the members that have only one value."""
    named = {name: values(member) for name, member in schema.get("properties", {}).items()}
    return {name: found[0] for name, found in named.items() if len(found) == 1}


def alternative(document, schema, tags):
    """Returns the name of a part of a union: the values of its tags, or its schema, or its type."""
    whole = flat(document, schema)
    found = constants(whole)
    tag = [str(found[name]) for name in sorted(tags) if name in found]
    # A schema of requests may have a variant for responses, whose name ends in `Answer`.
    name = schema.get("$ref", "").removesuffix("Answer")
    return ",".join(tag) or name or joined(types(whole)) or "any"


def joined(names):
    return " or ".join(sorted(names)) if names else "any"


def main(old, new):
    with open(old, encoding="utf-8") as file:
        old = json.load(file)
    with open(new, encoding="utf-8") as file:
        new = json.load(file)
    try:
        found = Comparison(old, new).documents()
    except Dangling as dangling:
        found = [dangling]
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
