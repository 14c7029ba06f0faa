// How does an order come in? The verb place: over HTTP, and the answer counts. Many at once are in wave.go.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"example.com/outboxlab/scripts/wait"
)

func compilePlace(args []string) (action, error) {
	if len(args) < 2 || len(args) > 6 {
		return nil, usage("place")
	}
	first, err := strconv.Atoi(args[0])
	if err != nil || first < 1 {
		return nil, usage("place")
	}
	if args[1] == "orders" {
		return compileWave(first, args[2:])
	}
	total, err := strconv.Atoi(args[1])
	if err != nil || len(args) > 3 || len(args) == 3 && args[2] != "unanswered" {
		return nil, usage("place")
	}
	unanswered := len(args) == 3
	return func(ctx context.Context, s *stage) error {
		id, err := s.order(ctx, first, total)
		switch {
		case unanswered && err == nil:
			return fmt.Errorf("order %d was answered; the connection should have broken", id)
		case unanswered && errors.As(err, new(*refusal)):
			return fmt.Errorf("the connection should have broken: %w", err)
		case unanswered:
			s.out.note("the customer got no answer")
			return nil
		case err != nil:
			return err
		}
		s.out.note("201: order %d", id)
		return nil
	}, nil
}

// refusal is an answer other than 201.
type refusal struct{ status, body string }

func (r *refusal) Error() string {
	return fmt.Sprintf("POST /orders answered %s: %s", r.status, r.body)
}

var customer = &http.Client{Timeout: wait.Limit}

// order places one order over HTTP and notes it as accepted when the answer is 201. Any other answer is an error.
func (s *stage) order(ctx context.Context, customerID, total int) (int64, error) {
	service, err := s.running("orders")
	if err != nil {
		return 0, err
	}
	body := fmt.Sprintf(`{"customerId": %d, "totalKzt": %d}`, customerID, total)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, service.Address()+"/orders", bytes.NewBufferString(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := customer.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	if response.StatusCode != http.StatusCreated {
		return 0, &refusal{status: response.Status, body: string(bytes.TrimSpace(answer))}
	}
	var order struct {
		ID int64 `json:"id"`
	}
	if err := json.Unmarshal(answer, &order); err != nil || order.ID == 0 {
		return 0, fmt.Errorf("POST /orders answered 201 without an id: %s", bytes.TrimSpace(answer))
	}
	s.accept(order.ID)
	return order.ID, nil
}
