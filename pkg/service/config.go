package service

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"strconv"
	"strings"

	"github.com/caarlos0/env/v11"
)

// This file answers: what do the environment variables say, and is it acceptable?

// Load reads a configuration struct, described by caarlos0/env tags, through getenv and then asks
// its Validate method, if it has one. Variables that are empty count as not set. The error is a
// UsageError of one line that names the variable.
func Load[T any](getenv func(string) string) (T, error) {
	var config T
	fields, err := env.GetFieldParams(&config)
	if err != nil {
		return config, err
	}
	environment := map[string]string{}
	for _, field := range fields {
		if value := getenv(field.Key); value != "" {
			environment[field.Key] = value
		}
	}
	if err := env.ParseWithOptions(&config, env.Options{Environment: environment}); err != nil {
		return config, UsageError{firstProblem[T](err)}
	}
	if v, ok := any(&config).(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return config, UsageError{err}
		}
	}
	return config, nil
}

// firstProblem turns env's report, which speaks of struct fields, into one line about one variable.
func firstProblem[T any](err error) error {
	if all := (env.AggregateError{}); errors.As(err, &all) && len(all.Errors) > 0 {
		err = all.Errors[0]
	}
	if missing := (env.VarIsNotSetError{}); errors.As(err, &missing) {
		return fmt.Errorf("%s is not set", missing.Key)
	}
	if parse := (env.ParseError{}); errors.As(err, &parse) {
		return fmt.Errorf("%s: %w", variable[T](parse.Name), parse.Err)
	}
	return err
}

// variable tells which environment variable the named field, possibly of an embedded struct, comes from.
func variable[T any](field string) string {
	if f, ok := reflect.TypeFor[T]().FieldByName(field); ok {
		key, _, _ := strings.Cut(f.Tag.Get("env"), ",")
		return key
	}
	return field
}

// CheckAddr makes sure that the variable holds host:port with a numeric port.
func CheckAddr(variable, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%s=%q: must be host:port, e.g. 127.0.0.1:8080", variable, addr)
	}
	return nil
}

// Describe lists a configuration's variables and their values, secrets masked: what it was started
// with, for the first line of a service's log.
func Describe(config any) string {
	var parts []string
	value := reflect.ValueOf(config)
	for _, f := range reflect.VisibleFields(value.Type()) {
		key, _, _ := strings.Cut(f.Tag.Get("env"), ",")
		field := value.FieldByIndex(f.Index)
		if key != "" && !field.IsZero() {
			parts = append(parts, fmt.Sprintf("%s=%v", key, field))
		}
	}
	return strings.Join(parts, " ")
}
