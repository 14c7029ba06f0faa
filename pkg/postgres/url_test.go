package postgres_test

import (
	"strings"
	"testing"

	"example.com/outboxlab/pkg/postgres"
)

// Wherever a password may stand in a URL, it is not printed.
func TestAURLPrintsItselfWithoutThePassword(t *testing.T) {
	for _, text := range []string{
		"postgres://u:s3cret@127.0.0.1:5432/d",
		"postgres://u@127.0.0.1:5432/d?password=s3cret&sslmode=disable",
	} {
		var u postgres.URL
		if err := u.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if printed := u.String(); strings.Contains(printed, "s3cret") || !strings.Contains(printed, "127.0.0.1:5432/d") {
			t.Errorf("%s is printed as %s", text, printed)
		}
		if u.Reveal() != text {
			t.Errorf("%s connects with %s", text, u.Reveal())
		}
	}
}

func TestAURLThatCannotBeUsedIsRefusedInWords(t *testing.T) {
	for _, text := range []string{"", "nonsense", "mysql://h/d", "postgres://u:s3cret@h:x/d", "postgres://u:s3cret@h:99999/d", "postgres://u:s3cret@h/d?pool_max_conns=0"} {
		err := new(postgres.URL).UnmarshalText([]byte(text))
		if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "%!") {
			t.Errorf("%q: %v", text, err)
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
