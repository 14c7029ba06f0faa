package events_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"example.com/outboxlab/pkg/events"
)

// The wire format is a golden file: changing it is a decision, not a side effect.
func TestOrderPlacedIsWrittenAsTheGoldenFile(t *testing.T) {
	golden, err := os.ReadFile("testdata/order.placed.v1.json")
	if err != nil {
		t.Fatal(err)
	}
	order := events.OrderPlaced{OrderID: 1, CustomerID: 101, TotalKZT: 12000}
	written, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written, bytes.TrimSpace(golden)) {
		t.Errorf("written %s, golden file says %s", written, golden)
	}
	read, err := events.DecodeOrderPlaced(events.OrderPlacedType, 1, golden)
	if err != nil || read != order {
		t.Errorf("golden file read as %+v, %v", read, err)
	}
}

// One table for the code and the JSON Schema, which must agree on every row.
func TestDecodeAgreesWithTheSchema(t *testing.T) {
	schema := compile(t, "schemas/order.placed.v1.json")
	for _, c := range []struct {
		name, body string
		valid      bool
	}{
		{"as documented", `{"orderId":1,"customerId":101,"totalKzt":12000}`, true},
		{"as PostgreSQL writes jsonb", `{"orderId": 1, "totalKzt": 12000, "customerId": 101}`, true},
		{"a member more", `{"orderId":1,"customerId":101,"totalKzt":12000,"note":"x"}`, true},
		{"an id beyond 2^53", `{"orderId":9007199254740993,"customerId":9223372036854775807,"totalKzt":1}`, true},
		{"an id beyond int64", `{"orderId":9223372036854775808,"customerId":101,"totalKzt":1}`, false},
		{"a text for a number", `{"orderId":"oops"}`, false},
		{"a member missing", `{"orderId":1,"customerId":101}`, false},
		{"a member twice, the last one counts", `{"orderId":0,"orderId":1,"customerId":101,"totalKzt":1}`, true},
		{"a name with an escape", `{"order\u0049d":1,"customerId":101,"totalKzt":1}`, true},
		{"a member inside another", `{"orderId":{"orderId":1},"customerId":101,"totalKzt":1}`, false},
		{"a member null", `{"orderId":1,"customerId":101,"totalKzt":null}`, false},
		{"another case", `{"ORDERID":1,"customerId":101,"totalKzt":12000}`, false},
		{"zero", `{"orderId":1,"customerId":101,"totalKzt":0}`, false},
		{"negative", `{"orderId":-1,"customerId":101,"totalKzt":5}`, false},
		{"a fraction", `{"orderId":1,"customerId":101,"totalKzt":1.5}`, false},
		{"too much", `{"orderId":1,"customerId":101,"totalKzt":1e20}`, false},
		{"no object", `[1,101,12000]`, false},
		{"null", `null`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := events.DecodeOrderPlaced(events.OrderPlacedType, 1, []byte(c.body))
			if c.valid != (err == nil) {
				t.Errorf("decoded with %v", err)
			}
			if err != nil && !errors.Is(err, events.ErrMalformed) {
				t.Errorf("want ErrMalformed, got %v", err)
			}
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(c.body)))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); c.valid != (err == nil) {
				t.Errorf("the schema says %v", err)
			}
		})
	}
}

func TestDecodeRefusesWhatIsNotJSON(t *testing.T) {
	deep := strings.Repeat("[", 16<<20) // would be the end of a process that follows it down
	for _, body := range []string{"", "not json", `{"orderId":1`, `{"orderId":1} {}`, "\xff", deep, `{"note":` + deep} {
		if _, err := events.DecodeOrderPlaced(events.OrderPlacedType, 1, []byte(body)); !errors.Is(err, events.ErrMalformed) {
			t.Errorf("%.20q: want ErrMalformed, got %v", body, err)
		}
	}
}

func TestDecodeRefusesOtherTypesAndVersions(t *testing.T) {
	if _, err := events.DecodeOrderPlaced("order.cancelled", 1, []byte(`{}`)); !errors.Is(err, events.ErrUnknownType) {
		t.Errorf("type: %v", err)
	}
	if _, err := events.DecodeOrderPlaced(events.OrderPlacedType, 99, []byte(`{}`)); !errors.Is(err, events.ErrUnknownVersion) {
		t.Errorf("version: %v", err)
	}
}

func TestPointsAreRoundedDown(t *testing.T) {
	for total, points := range map[int64]int64{1: 0, 99: 0, 100: 1, 4599: 45, 12000: 120} {
		if got := (events.OrderPlaced{TotalKZT: total}).Points(); got != points {
			t.Errorf("%d KZT: %d points, want %d", total, got, points)
		}
	}
}

func compile(t *testing.T, path string) *jsonschema.Schema {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	document, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(path, document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(path)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}
