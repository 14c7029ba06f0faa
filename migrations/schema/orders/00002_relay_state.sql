-- What the relay needs to know of a row besides whether it is published: who holds it, how often it
-- has failed, and whether it has been given up.

-- +goose Up

ALTER TABLE orders.outbox
    -- Failed tries: the broker refused the event, returned it, or it cannot be sent at all. An
    -- outage of the broker is not a try.
    ADD COLUMN attempt_count    integer     NOT NULL DEFAULT 0,
    -- Why the last try failed, for people.
    ADD COLUMN last_error       text,
    -- When to try again after a failure. NULL = ready, has not failed yet.
    ADD COLUMN retry_at         timestamptz,
    -- Lease (claim mode lease): the row is somebody's until then, by the database's clock.
    ADD COLUMN locked_until     timestamptz,
    -- Whose. A settle that does not know the token changes nothing.
    ADD COLUMN lock_token       uuid,
    -- Given up after the last attempt: neither published nor pending. `relay dead` lists these.
    ADD COLUMN dead_lettered_at timestamptz,
    ADD CONSTRAINT a_published_row_is_not_dead CHECK (published_at IS NULL OR dead_lettered_at IS NULL),
    -- What no event needs and a hand might type. One such row would stop every relay that reads it.
    ADD CONSTRAINT id_is_positive            CHECK (id > 0),
    ADD CONSTRAINT created_at_is_finite      CHECK (isfinite(created_at)),
    ADD CONSTRAINT retry_at_is_finite        CHECK (isfinite(retry_at)),
    ADD CONSTRAINT locked_until_is_finite    CHECK (isfinite(locked_until)),
    ADD CONSTRAINT attempt_count_is_sensible CHECK (attempt_count BETWEEN 0 AND 1000000);

-- Pending = not published and not dead. It is split in two, because rows that wait for tomorrow
-- must not stand in the way of a claim that looks for the lowest ready ids.
DROP INDEX orders.outbox_pending;
CREATE INDEX outbox_ready ON orders.outbox (id)
    WHERE published_at IS NULL AND dead_lettered_at IS NULL AND retry_at IS NULL;
CREATE INDEX outbox_waiting ON orders.outbox (retry_at, id)
    WHERE published_at IS NULL AND dead_lettered_at IS NULL AND retry_at IS NOT NULL;

-- "Is there an earlier event of this aggregate?", asked for every row claimed, among the ready and
-- among the waiting. The first says "retry_at IS NULL" in other words, so that a query can ask for
-- this index and not for outbox_ready: to the planner both look alike while few rows are ready.
CREATE INDEX outbox_ready_of_aggregate ON orders.outbox (aggregate_type, aggregate_id, id)
    WHERE published_at IS NULL AND dead_lettered_at IS NULL AND coalesce(retry_at, '-infinity') = '-infinity';
CREATE INDEX outbox_waiting_of_aggregate ON orders.outbox (aggregate_type, aggregate_id, id)
    WHERE published_at IS NULL AND dead_lettered_at IS NULL AND retry_at IS NOT NULL;

CREATE INDEX outbox_dead ON orders.outbox (id) WHERE dead_lettered_at IS NOT NULL;

-- "Published in the last minute?" for `relay status`: a few pages, and next to nothing to keep up.
CREATE INDEX outbox_published ON orders.outbox USING brin (published_at) WITH (autosummarize = on);

GRANT UPDATE (attempt_count, last_error, retry_at, locked_until, lock_token, dead_lettered_at)
    ON orders.outbox TO relay_app;
-- The highest id handed out, for the relay's scan floor (services/relay/floor.go).
GRANT SELECT ON SEQUENCE orders.outbox_id_seq TO relay_app;

-- +goose Down

REVOKE SELECT ON SEQUENCE orders.outbox_id_seq FROM relay_app;

DROP INDEX orders.outbox_published;
DROP INDEX orders.outbox_dead;
DROP INDEX orders.outbox_waiting_of_aggregate;
DROP INDEX orders.outbox_ready_of_aggregate;
DROP INDEX orders.outbox_waiting;
DROP INDEX orders.outbox_ready;
ALTER TABLE orders.outbox
    DROP CONSTRAINT id_is_positive, DROP CONSTRAINT created_at_is_finite,
    DROP COLUMN attempt_count, DROP COLUMN last_error, DROP COLUMN retry_at,
    DROP COLUMN locked_until, DROP COLUMN lock_token, DROP COLUMN dead_lettered_at;
CREATE INDEX outbox_pending ON orders.outbox (id) WHERE published_at IS NULL;
