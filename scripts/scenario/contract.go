// Which names does a scenario rely on? The contract's, spelled out once more and on purpose: a black box that took
// them from the services' own constants would not notice when those change.
package main

const (
	ordersExchange = "orders"
	loyaltyQueue   = "loyalty.order-placed"
	deadLetters    = "loyalty.order-placed.dlq"
	inboxConsumer  = "loyalty.points"
	orderPlaced    = "order.placed"
)
