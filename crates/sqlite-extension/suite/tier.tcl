# Comes into a copy of SQLite's test/tester.tcl, behind the start of the library in it: every connection that names no VFS has its
# database on a tier of its own from then on. A test that starts the library anew goes on without.
if {[info exists ::env(MEZZANINE_SUITE_LIBRARY)]} {
  set suite_script {
    sqlite3 db :memory:
    db enable_load_extension 1
    db eval {SELECT load_extension($::env(MEZZANINE_SUITE_LIBRARY), 'mezzanine_default')}
    db close
  }
  eval $suite_script

  # A process that is made to crash (crashsql) has tiers as long as its parent has them, and crashes above them. The databases
  # that the parent has open are closed meanwhile.
  proc suite_load {} { expr {[lindex [sqlite3_vfs_list] 0] eq "unix" ? "" : $::suite_script} }
  proc suite_crash {} {
    rename crashsql crashsql_beside
    proc crashsql {args} {
      set files {}
      if {[suite_load] ne ""} {
        catch { set files [db eval {SELECT name, file FROM pragma_database_list WHERE name <> 'temp'}] }
      }
      if {[lindex $files 1] eq ""} { return [crashsql_beside {*}$args] }
      db close
      set result [crashsql_beside {*}$args]
      sqlite3 db [lindex $files 1]
      foreach {name file} [lrange $files 2 end] { db eval "ATTACH \$file AS \"$name\"" }
      set result
    }
  }

  # Any other process that a test starts has no tier, and is kept out by a lock where SQLite has its own outside of tests.
  # Other tests fill databases up to that byte, and it lies early in the file for them.
  set suite_test [open $argv0]
  if {[regexp {launch_testfixture|nameofexec|tf_main} [read $suite_test]]} {
    sqlite3_test_control_pending_byte 0x40000000
  }
  close $suite_test

  # Who deletes a database that has a tier deletes its sidecar, its logs and the flash file with it.
  rename do_delete_file do_delete_file_alone
  proc do_delete_file {force args} {
    foreach name $args {
      if {[file exists $name.mezzanine]} {
        file delete -force $name.mezzanine $name.mezz $name-wal
      }
    }
    do_delete_file_alone $force {*}$args
  }
}
