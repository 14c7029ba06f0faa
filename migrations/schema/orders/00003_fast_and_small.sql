-- What keeps the outbox fast and small: for several relays, for marks, for vacuum.

-- +goose Up

-- "Is an event of this aggregate leased?", asked for ready rows once something was found held up. In
-- claim mode tx the index is empty. In mode lease it makes taking a lease a write to all indexes of the
-- row. Building it stops writers for as long as one look through the table takes.
CREATE INDEX outbox_leased_of_aggregate ON orders.outbox (aggregate_type, aggregate_id, id)
    WHERE published_at IS NULL AND dead_lettered_at IS NULL AND locked_until IS NOT NULL;

-- A mark writes a second entry for its row into both of these (no update of published_at can be HOT:
-- it is in the predicates of the indexes above). Half-full pages have room for it, full ones split.
ALTER INDEX orders.outbox_pkey         SET (fillfactor = 50);
ALTER INDEX orders.event_id_is_unique  SET (fillfactor = 50);

-- Each published row leaves a dead version. With the server's settings a fifth of a week's rows may be
-- dead before vacuum comes; claims do not mind (they have a floor), disks do. A hundredth is
-- proportionate at any size: vacuum reads the indexes as a whole each time.
ALTER TABLE orders.outbox SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.01);

-- +goose Down

ALTER TABLE orders.outbox RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor);

ALTER INDEX orders.event_id_is_unique  RESET (fillfactor);
ALTER INDEX orders.outbox_pkey         RESET (fillfactor);
DROP INDEX orders.outbox_leased_of_aggregate;
