package servers

// How are servers used that somebody else runs? As given: checked, never restarted, never stopped.

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
)

type external struct{ given URLs }

// startExternal takes the URLs from the environment and checks that both servers answer and are new enough.
func startExternal(ctx context.Context) (*Pair, error) {
	given := URLs{Database: os.Getenv("DATABASE_URL"), AMQP: os.Getenv("AMQP_URL"), Management: os.Getenv("RABBITMQ_MANAGEMENT_URL")}

	var missing []string
	for _, v := range []struct{ name, value string }{
		{"DATABASE_URL", given.Database}, {"AMQP_URL", given.AMQP}, {"RABBITMQ_MANAGEMENT_URL", given.Management},
	} {
		if v.value == "" {
			missing = append(missing, v.name)
		} else if _, err := url.Parse(v.value); err != nil {
			return nil, &UsageError{v.name + " is not a URL"} // err would print it, with its password
		}
	}
	if len(missing) > 0 {
		return nil, &UsageError{fmt.Sprintf("STACK=external needs %s in the environment", strings.Join(missing, ", "))}
	}
	if _, err := check(ctx, given); err != nil {
		return nil, fmt.Errorf("STACK=external: %w", err)
	}
	return &Pair{URLs: given, Way: External, runner: external{given}}, nil
}

func (e external) urls() URLs                                             { return e.given }
func (e external) stop(context.Context) error                             { return nil }
func (e external) restartPostgres(context.Context) error                  { return ErrNotOurs }
func (e external) restartRabbitMQ(context.Context) error                  { return ErrNotOurs }
func (e external) rabbitmqctl(context.Context, ...string) (string, error) { return "", ErrNotOurs }
