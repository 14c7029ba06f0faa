package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/events"
	"example.com/outboxlab/pkg/outbox"
	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/pkg/service"
)

// This file answers: how does an order come in, and what does the client hear? From here the walk
// goes on to place.go.

const (
	// requestTimeout bounds the database's part of one request.
	requestTimeout = 5 * time.Second
	// maxBody is far above any order, in bytes.
	maxBody = 64 << 10
)

// statusClientGone is what nginx writes in its log for a client that hung up; nobody receives it.
const statusClientGone = 499

// placeRequest is POST /orders. The bounds in the tags are checked before the handler runs, and
// an unknown member is refused: it is more likely a misspelt one than a wish.
type placeRequest struct {
	Traceparent string `header:"traceparent" hidden:"true"`
	Body        struct {
		CustomerID int64 `json:"customerId" minimum:"1" doc:"Who orders"`
		TotalKZT   int32 `json:"totalKzt" minimum:"1" maximum:"2147483647" doc:"Total in whole tenge"`
	}
}

type placeResponse struct {
	Location string `header:"Location"`
	Body     orderBody
}

type orderBody struct {
	ID         int64     `json:"id"`
	CustomerID int64     `json:"customerId"`
	TotalKZT   int32     `json:"totalKzt"`
	Status     string    `json:"status"`
	CreatedAt  time.Time `json:"createdAt"`
}

type findRequest struct {
	ID int64 `path:"id" minimum:"1"`
}

type findResponse struct{ Body orderBody }

// api holds what the handlers need.
type api struct {
	pool    *pgxpool.Pool
	waker   *outbox.Waker
	log     *slog.Logger
	written *lastWrite
}

// newHandler makes the HTTP side of orders. It is ready while orders can be written (ready.go); the broker's
// state is of no interest here.
func newHandler(pool *pgxpool.Pool, waker *outbox.Waker, log *slog.Logger) http.Handler {
	a := api{pool: pool, waker: waker, log: log, written: &lastWrite{pool: pool}}
	router, humaAPI := service.NewRouter("orders", a.written.ready, service.NewMetrics())
	huma.Register(humaAPI, huma.Operation{
		OperationID: "place-order", Method: http.MethodPost, Path: "/orders", Summary: "Place an order",
		DefaultStatus: http.StatusCreated, MaxBodyBytes: maxBody,
	}, a.place)
	huma.Register(humaAPI, huma.Operation{
		OperationID: "get-order", Method: http.MethodGet, Path: "/orders/{id}", Summary: "Look an order up",
	}, a.find)
	return router
}

func (a api) place(ctx context.Context, r *placeRequest) (*placeResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	order, err := Place(ctx, a.pool, NewOrder{
		CustomerID: r.Body.CustomerID, TotalKZT: r.Body.TotalKZT, Traceparent: events.Traceparent(r.Traceparent),
	})
	a.written.note(err)
	if err != nil {
		return nil, a.problem("order not placed, or (if the database broke off just now) placed without this reply", err)
	}
	a.waker.Wake()
	a.log.Debug(saved(order), "order", order.ID, "customer", order.CustomerID, "total_kzt", order.TotalKZT)
	return &placeResponse{Location: fmt.Sprintf("/orders/%d", order.ID), Body: orderBody(order)}, nil
}

func (a api) find(ctx context.Context, r *findRequest) (*findResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	order, err := Find(ctx, a.pool, r.ID)
	if err != nil {
		return nil, a.problem(fmt.Sprintf("order %d not found", r.ID), err)
	}
	return &findResponse{Body: orderBody(order)}, nil
}

// problem is the one map from errors to HTTP. The client never sees the error's own text.
func (a api) problem(what string, err error) error {
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return huma.Error404NotFound(what)
	case errors.Is(err, context.Canceled):
		a.log.Debug(what + ": the client has gone")
		return huma.NewError(statusClientGone, "the client has gone")
	case postgres.BlameFor(err) != postgres.Statement:
		a.log.Warn(fmt.Sprintf("the database cannot do it now: %v", err), "err", err)
		return huma.ErrorWithHeaders(
			huma.Error503ServiceUnavailable("the database cannot do it now: "+what),
			http.Header{"Retry-After": {"1"}})
	default:
		a.log.Error(fmt.Sprintf("%s: %v", what, err), "err", err)
		return huma.Error500InternalServerError("internal error: " + what)
	}
}

// saved is the line that tells of an order.
func saved(o Order) string { return fmt.Sprintf("order %d saved, event written to outbox", o.ID) }
