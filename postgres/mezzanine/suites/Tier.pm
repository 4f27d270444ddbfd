# Puts a flash tier under every server that PostgreSQL's own TAP tests start.
#
#   PERL5OPT=-MTier MEZZ_LIBRARY=... MEZZ_SYNC_MODE=durable prove src/test/recovery/t
#
# The tests know nothing of it: before a server starts, its configuration gets a tier of its own, and so few
# shared buffers that pages really pass through it. Servers that are made from a backup of another one inherit
# its configuration, so what is said here comes last, and again at every start.
package Tier;

use strict;
use warnings;

sub configure
{
	my ($node) = @_;
	my $flash = $node->basedir . '/flash';
	my $text = "\n# a tier under this server\n"
	  . "dynamic_library_path = '$ENV{MEZZ_LIBRARY}:\$libdir'\n"
	  . "shared_preload_libraries = '" . preload($node) . "'\n"
	  . "mezzanine.flash_path = '$flash'\n"
	  . "mezzanine.flash_size = '" . ($ENV{MEZZ_FLASH_SIZE} // '24MB') . "'\n"
	  . "mezzanine.sync_mode = '$ENV{MEZZ_SYNC_MODE}'\n"
	  . "mezzanine.explain = off\n"
	  . "shared_buffers = '" . ($ENV{MEZZ_SHARED_BUFFERS} // '1MB') . "'\n";
	my $file = $node->data_dir . '/postgresql.conf';
	open my $conf, '>>', $file or die "$file: $!";
	print $conf $text;
	close $conf;
}

# What the test itself wants preloaded, and the tier.
sub preload
{
	my ($node) = @_;
	my $library = "$ENV{MEZZ_LIBRARY}/mezzanine";
	my $wanted = '';
	open my $conf, '<', $node->data_dir . '/postgresql.conf' or return $library;
	while (<$conf>)
	{
		$wanted = $1 if /^\s*shared_preload_libraries\s*=\s*'?([^'#\n]*)'?/;
	}
	close $conf;
	my @others = grep { $_ ne '' && $_ !~ m{(^|/)mezzanine$} } split /\s*,\s*/, $wanted;
	return join ',', @others, $library;
}

# Called when the test has been compiled, and so has loaded PostgreSQL::Test::Cluster.
sub hook
{
	return if !defined &PostgreSQL::Test::Cluster::start;
	no strict 'refs';
	no warnings 'redefine';
	my $start = \&PostgreSQL::Test::Cluster::start;
	*{'PostgreSQL::Test::Cluster::start'} = sub {
		configure($_[0]);
		goto &$start;
	};
	# Some tests start the server themselves.
	my $init = \&PostgreSQL::Test::Cluster::init;
	*{'PostgreSQL::Test::Cluster::init'} = sub {
		my @result = $init->(@_);
		configure($_[0]);
		return @result;
	};
	# From a server in mode durable, pg_rewind needs two functions more (docs/postgresql.md): its user gets them
	# here.
	my $safe_psql = \&PostgreSQL::Test::Cluster::safe_psql;
	*{'PostgreSQL::Test::Cluster::safe_psql'} = sub {
		my ($node, $database, $sql, @more) = @_;
		$sql .= ';' . <<'END' if $ENV{MEZZ_SYNC_MODE} eq 'durable' && $sql =~ /CREATE ROLE rewind_user/;
GRANT EXECUTE ON FUNCTION pg_backup_start(text, boolean), pg_backup_stop(boolean) TO rewind_user;
END
		return $safe_psql->($node, $database, $sql, @more);
	};
	# A copy of the files of a server that was not shut down is none without its tier.
	my $copy = \&PostgreSQL::Test::Cluster::backup_fs_cold;
	*{'PostgreSQL::Test::Cluster::backup_fs_cold'} = sub {
		my ($node, $name) = @_;
		my @result = $copy->(@_);
		system('cp', $node->basedir . '/flash', $node->backup_dir . "/$name.flash") == 0 or die "cp: $?";
		return @result;
	};
	my $restore = \&PostgreSQL::Test::Cluster::init_from_backup;
	*{'PostgreSQL::Test::Cluster::init_from_backup'} = sub {
		my ($node, $source, $name) = @_;
		my @result = $restore->(@_);
		my $flash = $source->backup_dir . "/$name.flash";
		if (-f $flash)
		{
			system('cp', $flash, $node->basedir . '/flash') == 0 or die "cp: $?";
		}
		configure($node);
		return @result;
	};
}

INIT { hook(); }

1;
