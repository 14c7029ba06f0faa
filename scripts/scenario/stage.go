// What does one scenario run on? A stage: a database and a vhost of its own, a tap on the broker, the services
// that run at the moment, and what the scenario's customers were told.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/scripts/blackbox"
	"example.com/outboxlab/scripts/lab"
	"example.com/outboxlab/scripts/stack/servers"
)

// stage is where one script is performed. Its fields are used by one goroutine, except those below mu.
type stage struct {
	script   *script
	lab      *lab.Lab
	pair     *servers.Pair // own-servers only, else nil
	binaries string        // directory
	out      *narrator
	db       *pgxpool.Pool // as owner
	broker   *broker
	tap      *tap
	path     *networkPath // to the broker; nil unless the script uses `broker`
	dbPath   *networkPath // from loyalty to its database; nil unless the script uses `database`
	sessions map[string]*pgx.Conn
	alarmed  bool // the broker's memory alarm is on

	placing *placing // the orders being placed meanwhile, or nil
	placed  *placing // the newest wave, also when it is over

	restarter restarter

	mu       sync.Mutex
	lastLoss time.Time           // when a consumer last vanished without settling what it held
	services map[string]*process // by alias; the newest of each
	accepted []int64             // orders whose customer got 201
}

// openStage prepares everything but the services.
func openStage(ctx context.Context, s *script, l *lab.Lab, pair *servers.Pair, binaries string, out *narrator) (*stage, error) {
	st := &stage{script: s, lab: l, pair: pair, binaries: binaries, out: out,
		broker: &broker{url: l.AMQPURL}, services: map[string]*process{}, sessions: map[string]*pgx.Conn{}}
	var err error
	if st.db, err = pgxpool.New(ctx, l.OwnerURL); err != nil {
		return nil, fmt.Errorf("connect as owner: %w", err)
	}
	if st.tap, err = openTap(ctx, l); err != nil {
		st.close()
		return nil, err
	}
	if s.cutsBroker {
		if st.path, err = openPath(l.AMQPURL); err != nil {
			st.close()
			return nil, err
		}
	}
	if s.cutsDatabase {
		if st.dbPath, err = openPath(l.LoyaltyURL); err != nil {
			st.close()
			return nil, err
		}
	}
	return st, nil
}

// close ends whatever still runs; the lab itself belongs to the caller.
func (s *stage) close() {
	if s.placing != nil {
		s.placing.abandon()
	}
	// Under its alarm a broker does not even answer a connection that says goodbye.
	_ = s.calm(context.Background())
	s.restarter.dismiss()
	for _, p := range s.services {
		p.Destroy()
	}
	for _, path := range []*networkPath{s.path, s.dbPath} {
		if path != nil {
			path.cut()
		}
	}
	if s.tap != nil {
		s.tap.close()
	}
	s.broker.close()
	s.closeSessions()
	s.db.Close()
}

// environment is all a service gets to see: its own role's URL, free ports, and what the script adds.
func (s *stage) environment(service string, extra []string) []string {
	amqpURL := s.lab.AMQPURL
	if s.path != nil {
		amqpURL = s.path.url
	}
	loyaltyURL := s.lab.LoyaltyURL
	if s.dbPath != nil {
		loyaltyURL = s.dbPath.url
	}
	env := []string{"LOG_FORMAT=text", "LOG_LEVEL=debug", "PATH=" + os.Getenv("PATH")}
	switch service {
	case "orders":
		env = append(env, "DATABASE_URL="+s.lab.OrdersURL, "ORDERS_ADDR=127.0.0.1:0")
	case "relay":
		env = append(env, "DATABASE_URL="+s.lab.RelayURL, "AMQP_URL="+amqpURL, "RELAY_ADDR=127.0.0.1:0")
	case "loyalty":
		env = append(env, "DATABASE_URL="+loyaltyURL, "AMQP_URL="+amqpURL, "LOYALTY_ADDR=127.0.0.1:0")
	}
	return append(env, extra...)
}

// process is a service that the script has started.
type process struct {
	*blackbox.Process
	service string // which binary it is; the process's name is what the script calls it
}

// launch starts a service under an alias that is free.
func (s *stage) launch(c command) (*process, error) {
	if old := s.find(c.alias); old != nil && old.Running() {
		return nil, fmt.Errorf("%s is running already", c.alias)
	}
	started, err := blackbox.Start(c.alias, filepath.Join(s.binaries, c.service), c.args, s.environment(c.service, c.env),
		func(text string) { s.out.log(c.alias, c.service, text) })
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &process{started, c.service}
	s.services[c.alias] = p
	return p, nil
}

// find returns the newest process of that alias, or nil.
func (s *stage) find(alias string) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.services[alias]
}

// running finds a service by alias and insists that it lives.
func (s *stage) running(alias string) (*process, error) {
	p := s.find(alias)
	if p == nil {
		return nil, fmt.Errorf("%s was not started", alias)
	}
	if !p.Running() {
		return nil, fmt.Errorf("%s is not running any more; it last said: %s", alias, p.LastLine())
	}
	return p, nil
}

// gone notes that a service vanished without saying goodbye.
func (s *stage) gone(p *process) {
	if p.service == "loyalty" {
		s.consumersLost()
	}
}

// consumersLost notes that consumers vanished, or their connections did. What they held comes back, but with a delay.
func (s *stage) consumersLost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastLoss = time.Now()
}

// consumersLastLost says when that was, the zero time if it never happened.
func (s *stage) consumersLastLost() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastLoss
}

// stopAll asks every service to stop and expects each to answer with exit code 0.
func (s *stage) stopAll(ctx context.Context) error {
	s.restarter.dismiss()
	var complaints []string
	for _, alias := range slices.Sorted(maps.Keys(s.services)) {
		p := s.services[alias]
		if !p.Running() {
			continue
		}
		_ = p.Signal(syscall.SIGCONT) // a story that failed may have left it frozen; it should fail for that only
		if err := end(ctx, p); err != nil {
			complaints = append(complaints, "after SIGTERM, "+alias+": "+err.Error())
		}
	}
	if len(complaints) > 0 {
		return fmt.Errorf("%s", strings.Join(complaints, "; "))
	}
	return nil
}

// accept notes that a customer was told 201 for this order.
func (s *stage) accept(order int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted = append(s.accepted, order)
}
