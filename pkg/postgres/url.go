package postgres

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// This file reads a PostgreSQL connection URL, in one way for all commands, and prints it without its password.

// URL is a PostgreSQL connection URL.
type URL struct{ raw string }

// UnmarshalText accepts postgres://user:password@host:port/database?option=value, also with several hosts. It reads the
// files that the options name, such as sslrootcert. Its errors quote no part that may be a password.
func (u *URL) UnmarshalText(text []byte) error {
	raw := string(text)
	if !strings.HasPrefix(raw, "postgres://") && !strings.HasPrefix(raw, "postgresql://") {
		return errors.New("must be a URL like postgres://user:password@127.0.0.1:5432/database")
	}
	if err := checkURL(raw); err != nil {
		return fmt.Errorf("not a usable PostgreSQL URL: %w", err)
	}
	if err := checkOptions(raw); err != nil {
		return fmt.Errorf("not a usable PostgreSQL URL: %w", err)
	}
	if _, err := parse(raw); err != nil {
		return fmt.Errorf("not a usable PostgreSQL URL%s: %w", alsoRead(os.Environ()), err)
	}
	u.raw = raw
	return nil
}

// userInfo is what may stand before the @ of a URL (RFC 3986, 3.2.1).
var userInfo = regexp.MustCompile(`^(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*$`)

// badPercent is a % that is not the start of an encoded byte.
var badPercent = regexp.MustCompile(`%(?:[^0-9A-Fa-f]|.?$|.[^0-9A-Fa-f]|00)`)

// checkURL refuses a connection URL whose parts cannot be told apart for sure. A password with a raw @ or / in it ends
// early for a parser, and its tail would be printed as host, port or database name. The errors quote nothing
// of the URL.
func checkURL(text string) error {
	_, rest, _ := strings.Cut(text, "://")
	before, after, found := strings.Cut(rest, "@")
	switch {
	case strings.Contains(after, "@"):
		return errors.New("it has more than one @: in a user name, a password or an option it is written %40")
	case found && !userInfo.MatchString(before):
		return errors.New("user name and password must be percent-encoded: / is %2F, ? is %3F, # is %23, % is %25")
	case badPercent.MatchString(rest):
		return errors.New("it has a % that is not followed by two hexadecimal digits: write %25")
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '`' || r >= 0x7f }):
		return errors.New("it has characters that must be percent-encoded: a space is %20")
	}
	return nil
}

// checkOptions refuses options without exactly one "=". A raw & or = in a password would make such ones.
func checkOptions(raw string) error {
	_, query, _ := strings.Cut(raw, "?")
	for option := range strings.SplitSeq(query, "&") {
		if query != "" && strings.Count(option, "=") != 1 {
			return errors.New("its options must be like ?name=value&name=value; within a value, & is %26 and = is %3D")
		}
	}
	return nil
}

// parse turns the URL into settings, pool_* among them. pgx's own error begins with the whole URL, its password masked as
// well as that can be done; what follows names the setting.
func parse(raw string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(raw)
	if wrong, ok := errors.AsType[*pgconn.ParseConfigError](err); ok {
		_, reason, _ := strings.Cut(wrong.Error(), "`: ")
		return nil, errors.New(reason)
	}
	if err != nil {
		return nil, err
	}
	mode := config.ConnConfig.DefaultQueryExecMode
	switch {
	case config.MinConns < 0 || config.MinIdleConns < 0:
		return nil, errors.New("pool_min_conns and pool_min_idle_conns must be 0 or more")
	case config.HealthCheckPeriod <= 0:
		return nil, errors.New("pool_health_check_period must be more than 0, e.g. 1m")
	case config.MaxConnLifetime <= 0 || config.MaxConnIdleTime <= 0:
		return nil, errors.New("pool_max_conn_lifetime and pool_max_conn_idle_time must be more than 0, e.g. 30m")
	case config.MaxConnLifetimeJitter < 0 || config.PingTimeout < 0:
		return nil, errors.New("pool_max_conn_lifetime_jitter and pool_ping_timeout must be 0 or more")
	case mode == pgx.QueryExecModeCacheStatement && config.ConnConfig.StatementCacheCapacity <= 0:
		return nil, errors.New("statement_cache_capacity=0 needs another default_query_exec_mode, e.g. exec")
	case mode == pgx.QueryExecModeCacheDescribe && config.ConnConfig.DescriptionCacheCapacity <= 0:
		return nil, errors.New("description_cache_capacity=0 needs another default_query_exec_mode, e.g. exec")
	}
	return config, nil
}

// has tells whether the URL sets the option.
func (u URL) has(option string) bool {
	_, query, _ := strings.Cut(u.raw, "?")
	return strings.HasPrefix(query, option+"=") || strings.Contains(query, "&"+option+"=")
}

// alsoRead names the variables from which pgx, like psql, takes what a URL leaves out: the mistake may be in one of them.
func alsoRead(environment []string) string {
	var names []string
	for _, variable := range environment {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PG") && name != "PGDATA" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf(" (with %s of the environment)", strings.Join(names, ", "))
}

// String is the URL without its password. Options are left out where a password is among them: a raw & in it
// would make its tail look like another option.
func (u URL) String() string {
	scheme, rest, _ := strings.Cut(u.raw, "://")
	if before, after, found := strings.Cut(rest, "@"); found {
		user, _, secret := strings.Cut(before, ":")
		if secret {
			user += ":xxxxx"
		}
		rest = user + "@" + after
	}
	address, query, _ := strings.Cut(rest, "?")
	for option := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(option, "=")
		if name, err := url.PathUnescape(name); err != nil || strings.Contains(name, "password") {
			query = "xxxxx"
		}
	}
	if query != "" {
		query = "?" + query
	}
	return scheme + "://" + address + query
}

// Reveal is the URL with its password, for connecting.
func (u URL) Reveal() string { return u.raw }
