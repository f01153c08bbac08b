"""Branch and bound over sign patterns: trees and their bounds."""
