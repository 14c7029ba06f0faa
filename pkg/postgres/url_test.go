package postgres_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/outboxlab/pkg/postgres"
)

// Wherever a password may stand in a URL, it is not printed.
func TestAURLPrintsItselfWithoutThePassword(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://u:s3cret@127.0.0.1:5432/d":                             "postgres://u:xxxxx@127.0.0.1:5432/d",
		"postgres://u:s3:c:ret@127.0.0.1:5432/d":                           "postgres://u:xxxxx@127.0.0.1:5432/d",
		"postgres://u:s3%40%2Fcret@127.0.0.1:5432/d":                       "postgres://u:xxxxx@127.0.0.1:5432/d",
		"postgres://u:s3cret@127.0.0.1:5432/d?sslmode=disable":             "postgres://u:xxxxx@127.0.0.1:5432/d?sslmode=disable",
		"postgres://u@127.0.0.1:5432/d?password=s3cret&sslmode=disable":    "postgres://u@127.0.0.1:5432/d?xxxxx",
		"postgres://u@127.0.0.1:5432/d?pass%77ord=s3cret":                  "postgres://u@127.0.0.1:5432/d?xxxxx",
		"postgres://u@127.0.0.1:5432/d?password=a&s3cret=b":                "postgres://u@127.0.0.1:5432/d?xxxxx",
		"postgres://u@127.0.0.1:5432/d?sslpassword=s3cret&sslmode=disable": "postgres://u@127.0.0.1:5432/d?xxxxx",
		"postgresql://u:s3cret@one:5432,two:5433/d?sslmode=disable":        "postgresql://u:xxxxx@one:5432,two:5433/d?sslmode=disable",
		"postgres://u:s3cret@/d?host=%2Ftmp&port=6432":                     "postgres://u:xxxxx@/d?host=%2Ftmp&port=6432",
	} {
		u := urlOf(t, text)
		if u.String() != want {
			t.Errorf("%s is printed as %s", text, u)
		}
		if u.Reveal() != text {
			t.Errorf("%s connects with %s", text, u.Reveal())
		}
	}
}

// s3, cret and X1 are parts of a password; in each of these a parser that is not told so may take them for something else.
func TestAURLThatCannotBeUsedIsRefusedInWords(t *testing.T) {
	rubbish := filepath.Join(t.TempDir(), "rubbish.pem")
	if err := os.WriteFile(rubbish, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	const d = "postgres://u:s3cret@h/d?"
	for _, text := range []string{
		"", "nonsense", "mysql://u:s3cret@h/d", "host=h user=u password=s3cret",
		"postgres://u:s3cret@h:X1/d", "postgres://u:s3cret@h:99999/d", "postgres://u:X1", "postgres://u:X1/d",
		"postgres://u:s3@cret@h/d", "postgres://u:s3/cret@h/d", "postgres://u:s3?cret@h/d", "postgres://u:s3#cret@h/d",
		"postgres://u:s3@cret/X1@h/d", "postgres://u:1234/cret@h/d", "postgres://u:s3%cret@h/d", "postgres://u:s3%00cret@h/d", "postgres://u:s3cret%@h/d",
		"postgres://u:s3 cret@h/d", "postgres://u:s3`cret@h/d", "postgres://u:s3\tcret@h/d", "postgres://u:s3\ncret@h/d", "postgres://u:s3[cret@h/d",
		"postgres://u:s3ä@h/d", "postgres://u@h/d?password=s3@cret", "postgres://u@h/d?password=a&cret", "postgres://u@h/d?password=s3=cret", "postgres://u@h/d?password=s3%zcret",
		d + "pool_max_conns=0", d + "pool_max_conns=x", d + "pool_min_conns=-1", d + "pool_min_idle_conns=x", d + "pool_max_conn_lifetime=1", d + "pool_max_conn_lifetime=0s",
		d + "pool_max_conn_idle_time=-1s", d + "pool_health_check_period=0s", d + "pool_max_conn_lifetime_jitter=-1s", d + "pool_ping_timeout=x",
		d + "default_query_exec_mode=fast", d + "statement_cache_capacity=0", d + "default_query_exec_mode=cache_describe&description_cache_capacity=0",
		d + "sslmode=perhaps", d + "sslmode=verify-full&sslrootcert=/nowhere.pem", d + "sslmode=verify-full&sslrootcert=" + rubbish, d + "sslmode=require&sslcert=/nowhere.pem&sslkey=/nowhere.key",
		d + "connect_timeout=soon", d + "target_session_attrs=some", d + "channel_binding=x", d + "service=nowhere&servicefile=/nowhere",
	} {
		err := new(postgres.URL).UnmarshalText([]byte(text))
		if err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		for _, part := range []string{"s3", "cret", "X1", "%!", "\n"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%q: the error says %q", text, err)
			}
		}
	}
}

// What the URL leaves out is read from the environment, so a mistake there is named.
func TestTheEnvironmentsPartOfAURLIsNamed(t *testing.T) {
	t.Setenv("PGSERVICEFILE", "/nowhere")
	t.Setenv("PGSERVICE", "nosuch")
	err := new(postgres.URL).UnmarshalText([]byte("postgres://u:s3cret@127.0.0.1/d"))
	if err == nil || !strings.Contains(err.Error(), "PGSERVICE, PGSERVICEFILE") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v", err)
	}
}

func TestEveryOptionOfAPoolIsKnownToAllCommands(t *testing.T) {
	const text = "postgres://u:p@h/d?pool_max_conns=5&pool_min_conns=1&pool_min_idle_conns=1&pool_max_conn_lifetime=1h&pool_max_conn_idle_time=1m" +
		"&pool_health_check_period=10s&pool_max_conn_lifetime_jitter=1m&pool_ping_timeout=1s&default_query_exec_mode=exec"
	config, err := postgres.ConnConfig(urlOf(t, text).Reveal())
	if err != nil {
		t.Fatal(err)
	}
	if len(config.RuntimeParams) > 0 {
		t.Errorf("the server would be asked for %v", config.RuntimeParams)
	}
}
