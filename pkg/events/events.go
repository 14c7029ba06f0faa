// Package events is the contract between services: which events exist, and what their payload
// looks like on the wire. Producers encode and consumers decode here; neither knows the other.
// The JSON Schemas under schemas/ say the same for readers who do not read Go, and the golden
// files under testdata/ pin the bytes.
package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/tidwall/gjson"
)

// OrderPlacedType is the event type of OrderPlaced: its routing key and message type.
const OrderPlacedType = "order.placed"

// OrderPlacedVersion is the version of OrderPlaced's form that this code writes and reads.
const OrderPlacedVersion = 1

// OrderPlaced says that an order has been accepted.
type OrderPlaced struct {
	OrderID    int64 `json:"orderId"`    // > 0
	CustomerID int64 `json:"customerId"` // > 0
	TotalKZT   int64 `json:"totalKzt"`   // whole tenge, 1 to 2147483647
}

// Errors of DecodeOrderPlaced. Whoever gets one cannot do better by trying again.
var (
	// ErrMalformed: the bytes are not what the type and version promise.
	ErrMalformed = errors.New("malformed")
	// ErrUnknownType: no such event is known here.
	ErrUnknownType = errors.New("unknown type")
	// ErrUnknownVersion: the type is known, in another version.
	ErrUnknownVersion = errors.New("unknown version")
)

// DecodeOrderPlaced reads a message of the given type and version. Members it does not know are
// ignored, so that a producer may add some; what it does know must be there, whole and in range.
// The error is one of the three above, wrapped with the detail.
func DecodeOrderPlaced(eventType string, version int64, body []byte) (OrderPlaced, error) {
	if eventType != OrderPlacedType {
		return OrderPlaced{}, fmt.Errorf("%w %q", ErrUnknownType, eventType)
	}
	if version != OrderPlacedVersion {
		return OrderPlaced{}, fmt.Errorf("%w %d of %s", ErrUnknownVersion, version, eventType)
	}
	// The standard library judges what is JSON: it bounds how deep it may be nested. It would also take
	// "ORDERID" for orderId, and is slow at reading single members, hence gjson for those.
	if !json.Valid(body) {
		return OrderPlaced{}, fmt.Errorf("%w: not a JSON object", ErrMalformed)
	}
	object := gjson.ParseBytes(body)
	if !object.IsObject() {
		return OrderPlaced{}, fmt.Errorf("%w: not a JSON object", ErrMalformed)
	}
	var e OrderPlaced
	members := [...]struct {
		name  string
		max   int64
		value *int64
		raw   string // as it stands in the object, "" if it does not
	}{
		{name: "orderId", max: math.MaxInt64, value: &e.OrderID},
		{name: "customerId", max: math.MaxInt64, value: &e.CustomerID},
		{name: "totalKzt", max: math.MaxInt32, value: &e.TotalKZT},
	}
	object.ForEach(func(name, value gjson.Result) bool {
		for i := range members {
			if members[i].name == name.Str {
				members[i].raw = value.Raw
			}
		}
		return true
	})
	for _, member := range members {
		if member.raw == "" {
			return OrderPlaced{}, fmt.Errorf("%w: %s is missing", ErrMalformed, member.name)
		}
		// Into an integer, never through a float: 2^53+1 must stay what it is, and 1e20 be refused.
		n, err := strconv.ParseInt(member.raw, 10, 64)
		if err != nil || n < 1 || n > member.max {
			return OrderPlaced{}, fmt.Errorf("%w: %s is not an integer from 1 to %d", ErrMalformed, member.name, member.max)
		}
		*member.value = n
	}
	return e, nil
}

// Points is what an order earns: 1 point per 100 KZT, rounded down.
func (e OrderPlaced) Points() int64 { return e.TotalKZT / 100 }
