-- The loyalty service's schema: the points, and which messages they came from. One transaction
-- writes to both tables, so a message is either handled and remembered, or neither.

-- +goose Up

CREATE TABLE loyalty.ledger (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer_id bigint      NOT NULL,
    -- The last guard: even if the inbox has forgotten a message, one order is awarded once.
    order_id    bigint      NOT NULL CONSTRAINT an_order_is_awarded_once UNIQUE,
    -- floor(total_kzt / 100); 0 for a small order, which still counts as awarded
    points      integer     NOT NULL CONSTRAINT points_are_not_negative CHECK (points >= 0),
    created_at  timestamptz NOT NULL DEFAULT now()
);

-- GET /customers/{id}/points sums by customer.
CREATE INDEX ledger_by_customer ON loyalty.ledger (customer_id) INCLUDE (points);

-- The inbox: one row per message handled. Its primary key is what makes a second copy of a
-- message visible as such, whoever brings it and however often.
CREATE TABLE loyalty.processed_messages (
    -- Several consumers may share the table; each remembers for itself, e.g. loyalty.points.
    consumer     text        NOT NULL,
    message_id   uuid        NOT NULL,
    processed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, message_id)
);

GRANT USAGE ON SCHEMA loyalty TO loyalty_app;
GRANT SELECT, INSERT ON loyalty.ledger TO loyalty_app;
GRANT SELECT, INSERT ON loyalty.processed_messages TO loyalty_app;

-- +goose Down

DROP TABLE loyalty.processed_messages;
DROP TABLE loyalty.ledger;
REVOKE USAGE ON SCHEMA loyalty FROM loyalty_app;
