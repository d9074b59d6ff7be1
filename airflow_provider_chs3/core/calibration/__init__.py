"""Find the settings that suit a table best, by loads of samples."""
