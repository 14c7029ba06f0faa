-- Inbox rows are deleted when they are older than INBOX_RETENTION, oldest first; so are notes of failures
-- whose message has not been heard of again.

-- +goose Up

-- Without it each batch of the pruning reads the whole table. New rows go to the right end of their
-- consumer's part, which is cheap.
CREATE INDEX processed_messages_by_age ON loyalty.processed_messages (consumer, processed_at);

GRANT DELETE ON loyalty.processed_messages TO loyalty_app;

-- +goose Down

REVOKE DELETE ON loyalty.processed_messages FROM loyalty_app;
DROP INDEX loyalty.processed_messages_by_age;
