-- What went wrong with a message: RabbitMQ counts failed deliveries and says that a message died of
-- them, but has nowhere to keep the error's text. This table keeps the last one, so that
-- `loyalty dlq list` can say why. It is a note for people; no decision reads it.

-- +goose Up

CREATE TABLE loyalty.failures (
    consumer   text        NOT NULL,
    message_id uuid        NOT NULL,
    -- Failures noted. Fewer than the broker has counted if the process died before it could write one down.
    attempts   integer     NOT NULL DEFAULT 1 CONSTRAINT attempts_are_positive CHECK (attempts > 0),
    last_error text        NOT NULL,
    first_seen timestamptz NOT NULL DEFAULT now(),
    last_seen  timestamptz NOT NULL DEFAULT now(),
    -- One row per message; it goes when the message is handled.
    PRIMARY KEY (consumer, message_id)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON loyalty.failures TO loyalty_app;

-- +goose Down

DROP TABLE loyalty.failures;
