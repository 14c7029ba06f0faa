-- The orders service's schema: what was ordered, and what the world must be told about it.
-- Both tables live in one database on purpose: one transaction writes to both, so an order
-- without its event, or an event without its order, cannot exist (docs/guarantees.md).

-- +goose Up

CREATE TABLE orders.orders (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer_id bigint      NOT NULL CONSTRAINT customer_id_is_positive CHECK (customer_id > 0),
    -- whole tenge; one point is awarded per 100
    total_kzt   integer     NOT NULL CONSTRAINT total_is_positive CHECK (total_kzt > 0),
    status      text        NOT NULL DEFAULT 'placed',
    created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE orders.outbox (
    -- The order in which rows were written, not in which they commit: a lower id can become
    -- visible after a higher one, so the relay claims by state and never by "last id seen".
    id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The message id on the wire, and what consumers deduplicate by. Version 7 is ordered by
    -- time, so the unique index grows at its right edge instead of being written all over.
    event_id       uuid        NOT NULL DEFAULT uuidv7() CONSTRAINT event_id_is_unique UNIQUE,
    -- What the event is about: events of one aggregate belong together.
    aggregate_type text        NOT NULL,
    aggregate_id   text        NOT NULL,
    -- Routing key and message type, e.g. order.placed.
    event_type     text        NOT NULL,
    -- Version of the payload's form; consumers refuse a version they do not know.
    event_version  integer     NOT NULL DEFAULT 1 CONSTRAINT event_version_is_positive CHECK (event_version > 0),
    -- The message body. jsonb: what reaches a consumer is this value's text, with keys and
    -- spaces as PostgreSQL writes them. Nothing on the way signs or hashes the bytes.
    payload        jsonb       NOT NULL,
    tenant_id      text        NOT NULL DEFAULT 'default',
    -- W3C trace context of the request that wrote the row; empty when there was none.
    traceparent    text        NOT NULL DEFAULT '',
    created_at     timestamptz NOT NULL DEFAULT now(),
    -- When the broker had confirmed the message. NULL = pending: the relay's only question.
    published_at   timestamptz
);

-- The relay's claim reads exactly this: pending rows by id. Published rows are not in the
-- index, so a claim costs the same after a million orders as after ten.
CREATE INDEX outbox_pending ON orders.outbox (id) WHERE published_at IS NULL;

GRANT USAGE ON SCHEMA orders TO orders_app, relay_app;

GRANT SELECT, INSERT ON orders.orders TO orders_app;
GRANT INSERT ON orders.outbox TO orders_app;

GRANT SELECT, DELETE ON orders.outbox TO relay_app;
GRANT UPDATE (published_at) ON orders.outbox TO relay_app;

-- A column can be granted, a row cannot: row security keeps the relay from deleting an event
-- that nobody has received yet. The owner (migrations, psql) is not subject to it.
ALTER TABLE orders.outbox ENABLE ROW LEVEL SECURITY;
CREATE POLICY orders_writes_events        ON orders.outbox FOR INSERT TO orders_app WITH CHECK (true);
CREATE POLICY relay_reads_events          ON orders.outbox FOR SELECT TO relay_app USING (true);
CREATE POLICY relay_marks_events          ON orders.outbox FOR UPDATE TO relay_app USING (true);
CREATE POLICY relay_prunes_only_published ON orders.outbox FOR DELETE TO relay_app USING (published_at IS NOT NULL);

-- +goose Down

DROP TABLE orders.outbox;
DROP TABLE orders.orders;
REVOKE USAGE ON SCHEMA orders FROM orders_app, relay_app;
