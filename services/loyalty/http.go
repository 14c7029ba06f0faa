package main

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"example.com/outboxlab/pkg/service"
)

// This file answers: how many points has a customer got, and is the service well?

// requestTimeout bounds the database's part of one request.
const requestTimeout = 5 * time.Second

type pointsRequest struct {
	ID int64 `path:"id" minimum:"1"`
}

type pointsResponse struct {
	Body struct {
		CustomerID int64 `json:"customerId"`
		Points     int64 `json:"points" doc:"Sum over the ledger; 0 for a customer not heard of"`
	}
}

const sumPoints = `
SELECT coalesce(sum(points), 0)
FROM loyalty.ledger
WHERE customer_id = $1`

// newHandler makes the HTTP side of loyalty. It is ready while it is attached to its queue and the
// database can be written to.
func newHandler(c *Consumer) http.Handler {
	router, api := service.NewRouter("loyalty", c.Ready, c.metrics.registry)
	huma.Register(api, huma.Operation{
		OperationID: "get-points", Method: http.MethodGet, Path: "/customers/{id}/points", Summary: "A customer's points",
	}, c.points)
	return router
}

func (c *Consumer) points(ctx context.Context, r *pointsRequest) (*pointsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	response := &pointsResponse{}
	response.Body.CustomerID = r.ID
	if err := c.pool.QueryRow(ctx, sumPoints, r.ID).Scan(&response.Body.Points); err != nil {
		c.log.Warn("points not read: "+err.Error(), "err", err)
		return nil, huma.ErrorWithHeaders(huma.Error503ServiceUnavailable("the database cannot be read now"),
			http.Header{"Retry-After": {"1"}})
	}
	return response, nil
}
